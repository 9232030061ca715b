// Package workers is both sides of running work: the leader's rules from a due
// instance to its outcome, and the runtime of a worker process.
//
// The leader's side, pure deciders over the folded state and what beats say:
//
//   - dispatch.go offers queued instances into free slots.
//   - claim.go, report.go, beat.go answer workers.
//   - outcome.go judges what ended: retry, dead letter, cancel; and what passed
//     a deadline. liveness.go knows which workers live.
//
// The worker's side: worker.go and the files named after its parts; executors
// are in executor*.go.
//
// Invariants:
//
//	W1  An offer is started or withdrawn, never both; an attempt starts at most
//	    once, by the nonce of one claim.
//	W2  A worker starts to run an attempt only after `go`, and only if the last
//	    beat that was answered was sent less than a run lease ago.
//	W3  A beat lists every attempt from before its first claim until its outcome
//	    is answered. What a beat once omitted, or an answer stopped, is never
//	    started.
//	W4  When the run lease is over every run has ended, KILL included.
//	W5  An attempt is lost only a run lease and a margin after the latest of its
//	    worker's last beat, its started, and the leader's led; or at once when
//	    the worker itself says so: a newer process, or two beats without it.
//	W6  While a worker that passed the time limit has not let go, no next attempt
//	    is offered and the instance is not final.
package workers
