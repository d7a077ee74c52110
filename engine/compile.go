//go:build js && wasm

package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"syscall/js"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/open-policy-agent/opa/v1/compile"
	"github.com/open-policy-agent/opa/v1/util"
)

// compiledEntrypoint says of a path whether it is in the compiled policy, or why it stays with Go, and which documents its
// result depends on.
type compiledEntrypoint struct {
	Path     string     `json:"path"`
	Compiled bool       `json:"compiled"`
	Reason   string     `json:"reason,omitempty"`
	Reads    [][]string `json:"reads"`
}

// compile makes one WebAssembly module of several entrypoints, by paths as of a URL.
func (e *engine) compile(entrypointsText, of string) (any, error) {
	var paths []string
	if err := json.Unmarshal([]byte(entrypointsText), &paths); err != nil {
		return nil, err
	}
	p := e.active
	if of == "prepared" {
		if e.prepared == nil {
			return nil, fmt.Errorf("no policy is prepared")
		}
		p = e.prepared.policy
	}
	e.turns.begin()
	deps := newDependencies(p.compiler)
	entrypoints := make([]compiledEntrypoint, len(paths))
	var suitable []string
	var needed []*ast.Rule
	for i, path := range paths {
		entrypoints[i] = compiledEntrypoint{Path: path, Reads: [][]string{}}
		ref, err := refOf(path)
		if err != nil {
			entrypoints[i].Reason = err.Error()
			continue
		}
		rules := deps.rulesOf(ref)
		entrypoints[i].Reads = deps.readsOf(ref, rules)
		if entrypoints[i].Reason = staysWithGo(p.compiler, path, ref, rules); entrypoints[i].Reason == "" {
			suitable = append(suitable, path)
			needed = append(needed, rules...)
		}
		e.turns.give()
	}
	result := js.Global().Get("Object").New()
	if len(suitable) > 0 {
		wasm, err := e.compileToWasm(p, suitable, needed)
		if err != nil {
			for i := range entrypoints {
				if entrypoints[i].Reason == "" {
					entrypoints[i].Reason = fmt.Sprintf("OPA's compiler: %v", err)
				}
			}
		} else {
			result.Set("wasm", bytesToJS(wasm))
			for i := range entrypoints {
				entrypoints[i].Compiled = entrypoints[i].Reason == ""
			}
		}
	}
	text, err := jsonText(entrypoints)
	if err != nil {
		return nil, err
	}
	result.Set("entrypoints", text)
	return result, nil
}

// compileToWasm runs OPA's compile package, which compiles modules once more: it gets only the rules that are needed.
func (e *engine) compileToWasm(p *policy, entrypoints []string, needed []*ast.Rule) ([]byte, error) {
	modules, err := e.onlyRules(p, needed)
	if err != nil {
		return nil, err
	}
	e.turns.give()
	b := &bundle.Bundle{Data: map[string]any{}, Modules: modules}
	b.Manifest.Init()
	c := compile.New().
		WithBundle(b).
		WithTarget(compile.TargetWasm).
		WithEntrypoints(slices.Compact(slices.Sorted(slices.Values(entrypoints)))...).
		WithRegoVersion(ast.RegoV1).
		WithPruneUnused(true)
	if err := c.Build(e.ctx); err != nil {
		return nil, err
	}
	return c.Bundle().WasmModules[0].Raw, nil
}

// onlyRules returns copies of the modules with the needed rules alone. The compiler keeps the order of rules, so that a
// compiled rule is found by its index.
func (e *engine) onlyRules(p *policy, needed []*ast.Rule) ([]bundle.ModuleFile, error) {
	wanted := make(map[*ast.Rule]bool, len(needed))
	for _, rule := range needed {
		wanted[rule] = true
	}
	texts := make(map[string]module, len(p.modules))
	for _, m := range p.modules {
		texts[m.Path] = m
	}
	var files []bundle.ModuleFile
	for _, name := range util.KeysSorted(p.compiler.Modules) {
		var keep []int
		for i, rule := range p.compiler.Modules[name].Rules {
			if wanted[rule] {
				keep = append(keep, i)
			}
		}
		if len(keep) == 0 {
			continue
		}
		parsed, err := e.parsed.parse(texts[name])
		if err != nil {
			return nil, err
		}
		if len(parsed.Rules) != len(p.compiler.Modules[name].Rules) {
			return nil, fmt.Errorf("%s: its rules cannot be told apart", name)
		}
		part := parsed.Copy()
		rules := make([]*ast.Rule, len(keep))
		for i, index := range keep {
			rules[i] = part.Rules[index]
		}
		part.Rules = rules
		files = append(files, bundle.ModuleFile{URL: name, Path: name, Raw: emptyModule(part), Parsed: part})
	}
	return files, nil
}

// emptyModule is a text for the rest of the bundle, which nobody reads: OPA formats it.
func emptyModule(m *ast.Module) []byte {
	return []byte(m.Package.String() + "\n")
}
