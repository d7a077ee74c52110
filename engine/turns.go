//go:build js && wasm

package main

import (
	"syscall/js"
	"time"
)

// longestTurn is how long work goes on before other calls are let in.
const longestTurn = 8 * time.Millisecond

// turns lets the host's event loop turn amid long work: only then other calls arrive.
type turns struct {
	host  js.Value
	began time.Time
}

func newTurns(host js.Value) *turns {
	return &turns{host: host}
}

// begin marks the start of long work.
func (t *turns) begin() {
	t.began = time.Now()
}

// give lets other calls in if the work has gone on for long enough.
func (t *turns) give() {
	if time.Since(t.began) < longestTurn {
		return
	}
	turned := make(chan struct{})
	back := js.FuncOf(func(js.Value, []js.Value) any {
		close(turned)
		return nil
	})
	defer back.Release()
	t.host.Call("turn", back)
	<-turned
	t.began = time.Now()
}
