package testkit

import (
	"fmt"
	"testing"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/leader"
	"github.com/ax-scheduler/ax/workers"
)

// BenchmarkLife takes instances through their whole life in the leader's loop,
// over a log in memory, with no network: what the leader decides, encodes, folds
// and answers for an instance. One operation is one instance; they come in
// batches, as they do under load. Each metric is one hop:
//
//	trigger-ns   a command decided: fired and dispatched, in one frame, and the offer
//	claim-ns     a claim decided: started, and what to run
//	report-ns    a report decided: succeeded, and what trimming costs
//
//	go test ./testkit -run - -bench Life -benchmem -benchtime 200000x
func BenchmarkLife(b *testing.B) {
	for _, batch := range []int{1, 200} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			s := NewSim(b)
			s.Define("job", events.TaskSpec{Executor: events.ExecutorSpec{Kind: "func", Config: []byte(`{}`)}})
			w := s.Worker("w", int64(batch))
			w.Silent = true // the benchmark speaks for it
			var hops [3]time.Duration
			commands := events.Commands{Actor: "bench", Commands: make([]events.Command, batch)}
			for i := range commands.Commands {
				commands.Commands[i] = events.Command{Verb: events.VerbTrigger, Object: events.ObjectTask, Name: "job", Params: `{"customer":"a name","region":"eu-central-1","rows":120000,"dry":false,"note":"one hundred bytes of it"}`}
			}
			b.ReportAllocs()
			done := 0
			for b.Loop() {
				if done++; done%batch != 1 && batch > 1 {
					continue // one operation is one instance
				}
				begin := time.Now()
				s.Ask(func() (leader.Request, error) { return s.commands.Handle("", commands.Encode(nil)) })
				for s.loop.Round(s.schedule.Now()); s.commit(); { // what follows in frames of its own
				}
				offers := s.offers
				s.offers = nil
				claims := events.Claims{Worker: w.Name, Incarnation: w.incarnation, Beat: w.beat, RunLease: workers.DefaultRunLease.Milliseconds()}
				for i, o := range offers {
					claims.Claims = append(claims.Claims, events.Claim{Instance: o.offer.Instance, Attempt: o.offer.Attempt, Offer: o.offer.Offer, Nonce: fmt.Sprintf("a-nonce-%d-%08d", done, i)})
				}
				hops[0] += time.Since(begin)
				begin = time.Now()
				var answers events.ClaimAnswers
				s.must(answers.Decode(s.Ask(func() (leader.Request, error) { return s.Rules.HandleClaims(events.DefaultGroup, claims.Encode(nil)) })))
				reports := events.Reports{Worker: w.Name, Incarnation: w.incarnation}
				for i, a := range answers.Answers {
					if a.Run == nil {
						b.Fatal(a.Reason)
					}
					reports.Reports = append(reports.Reports, events.Report{Instance: a.Instance, Attempt: a.Attempt, Offer: a.Offer, Nonce: claims.Claims[i].Nonce, Outcome: events.OutcomeSucceeded})
				}
				hops[1] += time.Since(begin)
				begin = time.Now()
				var recorded events.ReportAnswers
				s.must(recorded.Decode(s.Ask(func() (leader.Request, error) { return s.Rules.HandleReports("", reports.Encode(nil)) })))
				if len(recorded.Answers) != batch || recorded.Answers[0].Outcome != events.OutcomeSucceeded {
					b.Fatalf("%d reports answered of %d, %+v", len(recorded.Answers), batch, recorded.Answers[0])
				}
				s.must(s.state.Flush())
				hops[2] += time.Since(begin)
			}
			for i, name := range []string{"trigger", "claim", "report"} {
				b.ReportMetric(float64(hops[i].Nanoseconds())/float64(done), name+"-ns")
			}
		})
	}
}
