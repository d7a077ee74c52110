//go:build js && wasm

// The engine: OPA's own code as one WebAssembly program. JavaScript starts it, gets an object of calls, and is the only one
// that can reach it: the program has no files, no network and no environment.
package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall/js"

	"github.com/open-policy-agent/opa/v1/version"
)

func main() {
	tuneMemory()
	closeNetwork()
	e := newEngine(js.Global().Get("engineHost"))
	calls := js.Global().Get("Object").New()
	calls.Set("opaVersion", version.Version)
	calls.Set("goVersion", runtime.Version())
	e.export(calls)
	js.Global().Get("engineHost").Call("ready", calls)
	select {}
}

// tuneMemory sets how often memory is collected. Compiling makes a lot of garbage; the default collects too often for it.
func tuneMemory() {
	debug.SetGCPercent(intOf("ENGINE_GC_PERCENT", 200))
	if limit := intOf("ENGINE_MEMORY_LIMIT", 0); limit > 0 {
		debug.SetMemoryLimit(int64(limit))
	}
}

func intOf(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}
