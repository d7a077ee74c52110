//go:build js && wasm

package main

import (
	"encoding/json"
	"fmt"
	"maps"
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
	// Open has paths below which keys may be numbers: where a member there gets a number as its name, this entrypoint has to be
	// compiled anew, to stay with Go.
	Open [][]string `json:"open"`
}

// compile makes one WebAssembly module of several entrypoints, by paths as of a URL. Where OPA's compiler
// refuses several together, the call fails, and the host finds out which of them it is.
func (e *engine) compile(entrypointsText, of string) (any, error) {
	var paths []string
	if err := json.Unmarshal([]byte(entrypointsText), &paths); err != nil {
		return nil, err
	}
	next := &change{policy: e.active}
	if of == "prepared" {
		if e.prepared == nil {
			return nil, fmt.Errorf("no policy is prepared")
		}
		next = e.prepared
	}
	p := next.policy
	documents, err := e.newOverlay(next)
	if err != nil {
		return nil, err
	}
	e.turns.begin()
	deps := newDependencies(p.compiler)
	entrypoints := make([]compiledEntrypoint, len(paths))
	needed := map[string][]*ast.Rule{}
	for i, path := range paths {
		found, rules := describe(path, p, deps, documents)
		if entrypoints[i] = found; found.Reason == "" {
			needed[path] = rules
		}
		e.turns.give()
	}
	var wasm []byte
	if len(needed) > 0 {
		wasm, err = e.compileToWasm(p, needed)
	}
	if err != nil && len(needed) > 1 {
		return nil, fmt.Errorf("OPA's compiler: %v", err)
	}
	for i := range entrypoints {
		if err != nil && entrypoints[i].Reason == "" {
			entrypoints[i].Reason = fmt.Sprintf("OPA's compiler: %v", err)
		}
		entrypoints[i].Compiled = entrypoints[i].Reason == ""
	}
	result := js.Global().Get("Object").New()
	if wasm != nil {
		result.Set("wasm", bytesToJS(wasm))
	}
	text, err := jsonText(entrypoints)
	if err != nil {
		return nil, err
	}
	result.Set("entrypoints", text)
	return result, nil
}

// describe finds out about one entrypoint, and the rules that it needs.
func describe(path string, p *policy, deps *ruleDependencies, documents *overlay) (compiledEntrypoint, []*ast.Rule) {
	found := compiledEntrypoint{Path: path, Reads: [][]string{}, Open: [][]string{}}
	ref, err := refOf(path)
	if err != nil {
		found.Reason = err.Error()
		return found, nil
	}
	rules := deps.rulesOf(ref)
	found.Reads = deps.readsOf(ref, rules)
	open := deps.openOf(rules)
	for _, one := range open {
		found.Open = append(found.Open, one.path)
	}
	found.Open = withoutBelow(found.Open)
	if found.Reason = staysWithGo(p, path, ref, rules); found.Reason == "" {
		found.Reason = documents.numberKeyReason(open)
	}
	if found.Reason == "" {
		question := ast.NewBody(ast.Equality.Expr(resultVar, ast.NewTerm(ref)))
		if _, err := p.compiler.QueryCompiler().Compile(question); err != nil {
			found.Reason = fmt.Sprintf("OPA's compiler: %v", err)
		}
	}
	return found, rules
}

// compileToWasm runs OPA's compile package, which compiles modules once more: it gets only the rules that are needed.
func (e *engine) compileToWasm(p *policy, needed map[string][]*ast.Rule) ([]byte, error) {
	modules, err := e.onlyRules(p, slices.Concat(slices.Collect(maps.Values(needed))...))
	if err != nil {
		return nil, err
	}
	e.turns.give()
	b := &bundle.Bundle{Data: map[string]any{}, Modules: modules}
	b.Manifest.Init()
	c := compile.New().
		WithBundle(b).
		WithTarget(compile.TargetWasm).
		WithEntrypoints(util.KeysSorted(needed)...).
		WithCapabilities(exactCapabilities()).
		WithRegoVersion(ast.RegoV1).
		WithPruneUnused(true)
	err = c.Build(e.ctx)
	// The module is made first. Then OPA prints the rest of the bundle, which nobody reads, and its formatter does not know all
	// that its compiler makes of an expression.
	if made := c.Bundle().WasmModules; len(made) > 0 {
		return made[0].Raw, nil
	}
	return nil, err
}

// onlyRules returns the modules with the needed rules alone, as the compiler left them, with their guards.
func (e *engine) onlyRules(p *policy, needed []*ast.Rule) ([]bundle.ModuleFile, error) {
	wanted := make(map[*ast.Rule]bool, len(needed))
	for _, rule := range needed {
		wanted[rule] = true
	}
	guards, err := ast.ParseModuleWithOpts(exactPackage, exactModule, ast.ParserOptions{RegoVersion: ast.RegoV1})
	if err != nil {
		return nil, err
	}
	files := []bundle.ModuleFile{{URL: exactPackage, Path: exactPackage, Raw: []byte(exactModule), Parsed: guards}}
	for _, name := range util.KeysSorted(p.compiler.Modules) {
		whole := p.compiler.Modules[name]
		part := &ast.Module{Package: whole.Package.Copy()}
		part.SetRegoVersion(ast.RegoV1)
		for _, rule := range whole.Rules {
			if !wanted[rule] {
				continue
			}
			rewritten := p.exactly(rule).rule
			for r := rewritten; r != nil; r = r.Else {
				r.Module = part
			}
			part.Rules = append(part.Rules, rewritten)
		}
		if len(part.Rules) == 0 && len(whole.Rules) > 0 {
			continue // a package without any rule is an empty object
		}
		files = append(files, bundle.ModuleFile{URL: name, Path: name, Raw: emptyModule(part), Parsed: part})
	}
	return files, nil
}

// emptyModule is a text for the rest of the bundle, which nobody reads: OPA formats it.
func emptyModule(m *ast.Module) []byte {
	return []byte(m.Package.String() + "\n")
}
