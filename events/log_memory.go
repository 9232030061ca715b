package events

import (
	"context"
	"sync"
	"time"
)

// MemoryLog is a Log in memory, for tests. Besides what a Log does it can
// misbehave on demand in the ways that a real one does.
type MemoryLog struct {
	mu      sync.Mutex
	msgs    []*Message // msgs[i] has sequence first+i
	first   uint64
	lastLed uint64
	created time.Time
	changed chan struct{} // closed and replaced at each change
	now     func() time.Time

	// Fault, if set, is asked at each append what is to happen to it.
	fault func(*Message) Fault
}

// Fault is what MemoryLog does to an append.
type Fault uint8

const (
	// NoFault appends and answers.
	NoFault Fault = iota
	// LoseAnswer appends, and answers with an unknown error.
	LoseAnswer
	// LoseAppend appends nothing, and answers with an unknown error.
	LoseAppend
	// AnswerBusy appends nothing, and answers ErrBusy.
	AnswerBusy
)

// errUnknown is the answer to a lost append.
var errUnknown = context.DeadlineExceeded

// NewMemoryLog makes an empty log whose messages are stamped by now; nil is the
// real clock.
func NewMemoryLog(now func() time.Time) *MemoryLog {
	if now == nil {
		now = time.Now
	}
	return &MemoryLog{first: 1, created: now(), changed: make(chan struct{}), now: now}
}

// SetFault sets the function that decides the fate of each append; nil is none.
func (l *MemoryLog) SetFault(f func(*Message) Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = f
}

func (l *MemoryLog) last() uint64 { return l.first + uint64(len(l.msgs)) - 1 }

func (l *MemoryLog) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *MemoryLog) store(m *Message) uint64 {
	stored := *m
	stored.Seq = l.last() + 1
	stored.Body = append([]byte(nil), m.Body...)
	stored.Stored = l.now().UnixNano()
	l.msgs = append(l.msgs, &stored)
	if m.Kind == MessageLed {
		l.lastLed = stored.Seq
	}
	l.notify()
	return stored.Seq
}

func (l *MemoryLog) append(m *Message, check func() error) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fault := NoFault
	if l.fault != nil {
		fault = l.fault(m)
	}
	switch fault {
	case LoseAppend:
		return 0, errUnknown
	case AnswerBusy:
		return 0, ErrBusy
	}
	if err := check(); err != nil {
		return 0, err
	}
	seq := l.store(m)
	if fault == LoseAnswer {
		return 0, errUnknown
	}
	return seq, nil
}

// Append implements Log.
func (l *MemoryLog) Append(_ context.Context, m *Message, fence, after uint64) (uint64, error) {
	return l.append(m, func() error {
		switch {
		case l.lastLed != fence:
			return ErrFenced
		case l.last() != after:
			return ErrMoved
		}
		return nil
	})
}

// AppendLed implements Log.
func (l *MemoryLog) AppendLed(_ context.Context, m *Message, last uint64) (uint64, error) {
	return l.append(m, func() error {
		if l.lastLed != last {
			return ErrFenced
		}
		return nil
	})
}

// Put stores a message without any condition, as a foreign writer would.
func (l *MemoryLog) Put(m *Message) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.store(m)
}

// LoseTail removes every message after seq, as a log without sync does in a
// power failure. Readers end.
func (l *MemoryLog) LoseTail(seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if seq >= l.last() || seq < l.first {
		return
	}
	l.msgs = l.msgs[:seq-l.first+1]
	l.lastLed = 0
	for _, m := range l.msgs {
		if m.Kind == MessageLed {
			l.lastLed = m.Seq
		}
	}
	l.notify()
}

// Expire removes every message before seq, as age or size does.
func (l *MemoryLog) Expire(seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if seq <= l.first || seq > l.last()+1 {
		return
	}
	l.msgs = append([]*Message(nil), l.msgs[seq-l.first:]...)
	l.first = seq
	if l.lastLed < seq {
		l.lastLed = 0
	}
	l.notify()
}

// LastLed implements Log.
func (l *MemoryLog) LastLed(context.Context) (*Message, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.get(l.lastLed)
}

func (l *MemoryLog) get(seq uint64) (*Message, error) {
	if seq < l.first || seq > l.last() || seq == 0 {
		return nil, ErrNotFound
	}
	return l.msgs[seq-l.first], nil
}

// Get implements Log.
func (l *MemoryLog) Get(_ context.Context, seq uint64) (*Message, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.get(seq)
}

// Info implements Log.
func (l *MemoryLog) Info(context.Context) (Info, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	info := Info{First: l.first, Last: l.last(), Created: l.created, Now: l.now()}
	for _, m := range l.msgs {
		info.Bytes += uint64(len(m.Body))
	}
	if len(l.msgs) > 0 {
		info.FirstTime = time.Unix(0, l.msgs[0].Stored)
	}
	return info, nil
}

// Read implements Log.
func (l *MemoryLog) Read(_ context.Context, from uint64) (Reader, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if from < l.first {
		return nil, &GapError{Want: from, Have: l.first}
	}
	r := &memoryReader{log: l, c: make(chan *Message), stop: make(chan struct{})}
	r.done.Go(func() { r.run(from) })
	return r, nil
}

type memoryReader struct {
	log  *MemoryLog
	c    chan *Message
	stop chan struct{}
	once sync.Once
	done sync.WaitGroup
	err  error // set before c is closed
}

func (r *memoryReader) run(next uint64) {
	defer close(r.c)
	for {
		r.log.mu.Lock()
		m, err := r.log.get(next)
		changed, first, last := r.log.changed, r.log.first, r.log.last()
		r.log.mu.Unlock()
		if err != nil {
			if next < first || next > last+1 {
				r.err = &GapError{Want: next, Have: min(first, last+1)}
				return
			}
			select {
			case <-changed:
				continue
			case <-r.stop:
				return
			}
		}
		select {
		case r.c <- m:
			next++
		case <-r.stop:
			return
		}
	}
}

func (r *memoryReader) C() <-chan *Message { return r.c }
func (r *memoryReader) Err() error         { return r.err }
func (r *memoryReader) Close() {
	r.once.Do(func() { close(r.stop) })
	r.done.Wait()
}

// MemoryLogOf makes a log that holds messages as they are, whatever is wrong
// with them. Their sequences have to rise by one.
func MemoryLogOf(msgs []*Message) *MemoryLog {
	l := NewMemoryLog(nil)
	if len(msgs) == 0 {
		return l
	}
	l.first, l.msgs = msgs[0].Seq, msgs
	for _, m := range msgs {
		if m.Kind == MessageLed {
			l.lastLed = m.Seq
		}
	}
	return l
}
