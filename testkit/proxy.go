package testkit

import (
	"net"
	"sync"
	"testing"
)

// Proxy is a network that can be cut: it stands between a process and what it
// connects to.
type Proxy struct {
	Addr   string // where it listens
	target string

	mu     sync.Mutex
	change *sync.Cond
	cut    cut
	closed bool
	conns  map[net.Conn]struct{}
	served sync.WaitGroup
}

// cut is how a Proxy treats its connections.
type cut uint8

const (
	whole  cut = iota
	silent     // nothing passes, and nobody is told
	broken     // connections are closed, and new ones too
)

// NewProxy listens on an address and hands connections on to another. It ends
// with the test.
func NewProxy(t testing.TB, listen, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, conns: map[net.Conn]struct{}{}}
	p.change = sync.NewCond(&p.mu)
	p.served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.served.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		p.closed = true
		p.closeAll()
		p.mu.Unlock()
		p.served.Wait()
	})
	return p
}

// Silence cuts the network as a lost route does: no byte passes any more in
// either direction, connections stay, and nobody is told. What was sent arrives
// after Heal.
func (p *Proxy) Silence() { p.set(silent) }

// Break cuts the network as a dead router that resets does: connections end, and
// so does each new one at once.
func (p *Proxy) Break() { p.set(broken) }

// Heal mends the network.
func (p *Proxy) Heal() { p.set(whole) }

func (p *Proxy) set(c cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = c
	if c == broken {
		p.closeAll()
	}
	p.change.Broadcast()
}

// closeAll closes the connections; the lock is held.
func (p *Proxy) closeAll() {
	for c := range p.conns {
		_ = c.Close()
	}
	p.change.Broadcast()
}

// keep notes a connection, or reports that it is not to be.
func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.cut == broken {
		_ = c.Close()
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close()
}

// passes waits while nothing passes, and reports whether something may.
func (p *Proxy) passes() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.cut == silent && !p.closed {
		p.change.Wait()
	}
	return p.cut == whole && !p.closed
}

func (p *Proxy) serve(c net.Conn) {
	if !p.keep(c) {
		return
	}
	defer p.drop(c)
	if !p.passes() {
		return
	}
	far, err := net.Dial("tcp", p.target)
	if err != nil || !p.keep(far) {
		return
	}
	defer p.drop(far)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.copy(far, c)
	}()
	p.copy(c, far)
	_ = c.Close() // ends the other direction
	_ = far.Close()
	<-done
}

func (p *Proxy) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !p.passes() {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
