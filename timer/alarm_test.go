package timer

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// eachAlarm runs a test for both kinds: the fallback is tested on Linux too.
func eachAlarm(t *testing.T, test func(t *testing.T, a *Alarm)) {
	t.Run("precise", func(t *testing.T) {
		a, err := NewAlarm()
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		test(t, a)
	})
	t.Run("coarse", func(t *testing.T) {
		a := newCoarseAlarm()
		defer a.Close()
		test(t, a)
	})
	if runtime.GOOS != "linux" {
		return
	}
	// The timerfd alone, without the runtime's timer behind it: what it loses is
	// not made good.
	t.Run("timerfd", func(t *testing.T) {
		a, err := NewAlarm()
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		a.mu.Lock()
		a.coarse = time.AfterFunc(time.Hour, func() {})
		a.mu.Unlock()
		test(t, a)
	})
}

// mustWake fails when the alarm is lost. A minute is what no machine is late by.
func mustWake(t *testing.T, a *Alarm) {
	t.Helper()
	select {
	case <-a.C():
	case <-time.After(time.Minute):
		t.Fatal("lost a wake-up")
	}
}

func mustBeQuiet(t *testing.T, a *Alarm) {
	t.Helper()
	select {
	case <-a.C():
		t.Fatal("a wake-up that nobody set")
	default:
	}
}

// Never early, never lost, for any duration (A1, A2).
func TestAlarmNeverEarlyNeverLost(t *testing.T) {
	eachAlarm(t, func(t *testing.T, a *Alarm) {
		rng := rand.New(rand.NewPCG(1, 2))
		for range 300 {
			d := time.Duration(rng.Int64N(int64(time.Microsecond) << rng.IntN(12)))
			begin := time.Now()
			a.Set(d)
			mustWake(t, a)
			if e := time.Since(begin); e < d {
				t.Fatalf("woke after %v, %v too early", e, d-e)
			}
		}
		mustBeQuiet(t, a)
	})
}

// The last Set counts, whether it is earlier or later than the one before, and
// whether or not that has gone off already (A3).
func TestAlarmLastSetCounts(t *testing.T) {
	eachAlarm(t, func(t *testing.T, a *Alarm) {
		a.Set(time.Hour)
		a.Set(time.Millisecond)
		mustWake(t, a)
		mustBeQuiet(t, a)

		rng := rand.New(rand.NewPCG(3, 4))
		for range 300 {
			// The first is about to go off, or has, when the second comes.
			a.Set(time.Duration(rng.Int64N(int64(100 * time.Microsecond))))
			for begin := time.Now(); time.Since(begin) < 50*time.Microsecond; {
				runtime.Gosched()
			}
			d := time.Duration(rng.Int64N(int64(2 * time.Millisecond)))
			begin := time.Now()
			a.Set(d)
			mustWake(t, a)
			if e := time.Since(begin); e < d {
				t.Fatalf("woke after %v, %v too early", e, d-e)
			}
		}
		mustBeQuiet(t, a)
	})
}

func TestAlarmAtOnce(t *testing.T) {
	eachAlarm(t, func(t *testing.T, a *Alarm) {
		for _, d := range []time.Duration{0, -1, -time.Hour} {
			a.Set(d)
			select {
			case <-a.C():
			default:
				t.Fatalf("Set(%v) did not wake at once", d)
			}
		}
		a.Set(time.Millisecond)
		a.Set(0)
		mustWake(t, a)
		a.Set(1<<63 - 1) // later than any clock will go
		mustBeQuiet(t, a)
	})
}

// After Stop nothing comes, even if the alarm was just going off; another alarm,
// set later, says when to stop waiting for that.
func TestAlarmStop(t *testing.T) {
	later, err := NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer later.Close()
	eachAlarm(t, func(t *testing.T, a *Alarm) {
		rng := rand.New(rand.NewPCG(5, 6))
		for range 100 {
			d := time.Duration(rng.Int64N(int64(200 * time.Microsecond)))
			a.Set(d)
			for begin := time.Now(); time.Since(begin) < 100*time.Microsecond; {
				runtime.Gosched()
			}
			a.Stop()
			mustBeQuiet(t, a)
			later.Set(2 * d)
			mustWake(t, later)
			mustBeQuiet(t, a)
		}
		a.Stop() // twice
		a.Set(time.Microsecond)
		mustWake(t, a)
	})
}

func TestAlarmClose(t *testing.T) {
	eachAlarm(t, func(t *testing.T, a *Alarm) {
		a.Set(0)
		a.Close()
		a.Close()
		mustBeQuiet(t, a)
		a.Set(0)
		a.Set(time.Nanosecond)
		a.Stop()
		a.preciseExpired()
		a.coarseExpired()
		mustBeQuiet(t, a)
	})
}

// Close while the alarm is going off and others call everything else.
func TestAlarmConcurrent(t *testing.T) {
	eachAlarm(t, func(t *testing.T, a *Alarm) {
		var wg sync.WaitGroup
		woken := make(chan struct{})
		var once sync.Once
		closed := make(chan struct{})
		for i := range 4 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(7, uint64(i)))
				for {
					switch rng.IntN(10) {
					case 0:
						a.Stop()
					case 1:
						a.Set(0)
					default:
						a.Set(time.Duration(rng.Int64N(int64(50 * time.Microsecond))))
					}
					select {
					case <-a.C():
						once.Do(func() { close(woken) })
					case <-closed:
						return
					default:
					}
				}
			})
		}
		<-woken
		wg.Go(a.Close)
		a.Close()
		close(closed)
		wg.Wait()
	})
}

// Close leaves no goroutine behind.
func TestAlarmLeavesNothing(t *testing.T) {
	for range 50 {
		a, err := NewAlarm()
		if err != nil {
			t.Fatal(err)
		}
		a.Set(time.Microsecond)
		a.Close()
	}
	// The goroutine has closed its channel, and may need a moment to be gone.
	deadline := time.Now().Add(time.Minute)
	buf := make([]byte, 1<<20)
	for {
		stacks := string(buf[:runtime.Stack(buf, true)])
		if !strings.Contains(stacks, "(*timerfd).wait") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("goroutines left:\n%s", stacks)
		}
		runtime.Gosched()
	}
}

func TestAlarmSetAllocatesNothing(t *testing.T) {
	eachAlarm(t, func(t *testing.T, a *Alarm) {
		if avg := testing.AllocsPerRun(100, func() { a.Set(time.Hour); a.Set(0); <-a.C(); a.Stop() }); avg != 0 {
			t.Fatalf("%.1f allocations", avg)
		}
	})
}

// BenchmarkAlarm measures how late the alarm and the runtime's timer wake, waiting
// 0.1 to 3 ms, in a process that does nothing else and in one whose processors all
// have work.
//
//	go test ./timer -run - -bench Alarm -benchtime 1000x
func BenchmarkAlarm(b *testing.B) {
	for _, load := range []string{"idle", "busy"} {
		b.Run(load, func(b *testing.B) {
			if load == "busy" {
				defer benchLoad()()
			}
			b.Run("alarm", func(b *testing.B) {
				a, err := NewAlarm()
				if err != nil {
					b.Fatal(err)
				}
				defer a.Close()
				benchLateness(b, b.N, func(d time.Duration) { a.Set(d); <-a.C() })
			})
			b.Run("timer", func(b *testing.B) {
				t := time.NewTimer(time.Hour)
				benchLateness(b, b.N, func(d time.Duration) { t.Reset(d); <-t.C })
			})
			if runtime.GOOS == "linux" {
				b.Run("timerfd", func(b *testing.B) {
					expired := make(chan struct{}, 1)
					t, err := newTimerfd(func() { expired <- struct{}{} })
					if err != nil {
						b.Fatal(err)
					}
					defer t.close()
					n := b.N
					if load == "busy" {
						n = min(n, 50) // each waits for the runtime to look at it
					}
					benchLateness(b, n, func(d time.Duration) { t.set(d); <-expired })
				})
			}
		})
	}
}

// benchLoad keeps every processor busy with goroutines that work for some
// microseconds and hand on to the next.
func benchLoad() (stop func()) {
	var stopped atomic.Bool
	var wg sync.WaitGroup
	for range 4 * runtime.GOMAXPROCS(0) {
		there, back := make(chan int), make(chan int)
		wg.Go(func() {
			for v := range there {
				for range 5000 {
					v = v*31 + 1
				}
				back <- v
			}
		})
		wg.Go(func() {
			for !stopped.Load() {
				there <- 1
				<-back
			}
			close(there)
		})
	}
	return func() { stopped.Store(true); wg.Wait() }
}

func benchLateness(b *testing.B, n int, wait func(time.Duration)) {
	rng := rand.New(rand.NewPCG(1, 2))
	late := make([]time.Duration, n)
	for i := range late {
		d := 100*time.Microsecond + time.Duration(rng.Int64N(int64(2900*time.Microsecond)))
		begin := time.Now()
		wait(d)
		late[i] = time.Since(begin) - d
	}
	slices.Sort(late)
	for _, p := range []int{50, 90, 99} {
		b.ReportMetric(float64(late[(len(late)-1)*p/100])/1000, fmt.Sprintf("µs-p%d", p))
	}
	b.ReportMetric(0, "ns/op") // mostly waiting
}

func BenchmarkAlarmSet(b *testing.B) {
	a, err := NewAlarm()
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	b.ReportAllocs()
	for b.Loop() {
		a.Set(time.Hour)
	}
}
