package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"sync"
)

// Handler is a task's work as a Go function. It has to return soon after its
// context ends; one that does not holds its slot, and its instance, until it
// does.
type Handler func(ctx context.Context, a *Attempt) (json.RawMessage, error)

// Funcs is the executor kind func: handlers registered under names. A definition
// names one: executor: {func: {name: reconcile}}.
type Funcs struct {
	mu       sync.RWMutex
	handlers map[string]Handler
}

// Register makes a handler known under a name.
func (f *Funcs) Register(name string, h Handler) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.handlers == nil {
		f.handlers = map[string]Handler{}
	}
	f.handlers[name] = h
}

// Factory is the Factory of the kind func.
func (f *Funcs) Factory(config json.RawMessage) (Executor, error) {
	var c struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(config, &c); err != nil || c.Name == "" {
		return nil, Permanent(fmt.Errorf("executor func: want {name: ...}, have %.200s", config))
	}
	return funcExecutor{f, c.Name}, nil
}

type funcExecutor struct {
	funcs *Funcs
	name  string
}

// Run implements Executor. A handler that panics fails its attempt.
func (x funcExecutor) Run(ctx context.Context, a *Attempt) (result json.RawMessage, err error) {
	x.funcs.mu.RLock()
	h := x.funcs.handlers[x.name]
	x.funcs.mu.RUnlock()
	if h == nil {
		return nil, fmt.Errorf("this worker has no function %q; register it, or let another group's worker serve the task", x.name)
	}
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return h(ctx, a)
}
