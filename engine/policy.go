//go:build js && wasm

package main

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/util"
)

// module is one file of a policy, and the Rego version that it is read as.
type module struct {
	Path    string `json:"path"`
	Rego    string `json:"rego"`
	Version int    `json:"version"`
}

// policy is a compiled set of modules. It never changes; queries and facts are added as they are needed.
type policy struct {
	modules  []module
	compiler *ast.Compiler
	// queries are compiled once, by path or text.
	queries map[string]*query
	// exact has the rules as they are compiled to WebAssembly, or why they are not.
	exact map[*ast.Rule]exactRule
}

// facts is what the host needs to know of a policy.
type facts struct {
	RulePaths [][]string `json:"rulePaths"`
	Builtins  []string   `json:"builtins"`
}

// parseCache has parsed modules by their text: nobody changes them, since the compiler works on copies.
type parseCache map[module]*ast.Module

func (c parseCache) parse(m module) (*ast.Module, error) {
	if parsed, hit := c[m]; hit {
		return parsed, nil
	}
	parsed, err := ast.ParseModuleWithOpts(m.Path, m.Rego, ast.ParserOptions{
		RegoVersion:       ast.RegoVersionFromInt(m.Version),
		ProcessAnnotation: true,
	})
	if err != nil {
		return nil, err
	}
	if parsed == nil {
		return nil, ast.NewError(ast.ParseErr, ast.NewLocation(nil, m.Path, 1, 1), "empty module")
	}
	c[m] = parsed
	return parsed, nil
}

// keepOnly forgets all modules but those of the policies.
func (c parseCache) keepOnly(policies ...*policy) {
	keep := map[module]bool{}
	for _, p := range policies {
		if p == nil {
			continue
		}
		for _, m := range p.modules {
			keep[m] = true
		}
	}
	for m := range c {
		if !keep[m] {
			delete(c, m)
		}
	}
}

// parse returns a JSON list of the paths of modules that do not parse.
func (e *engine) parse(modulesText string, version int) (any, error) {
	var modules []module
	if err := json.Unmarshal([]byte(modulesText), &modules); err != nil {
		return nil, err
	}
	e.turns.begin()
	bad := []string{}
	for _, m := range modules {
		m.Version = version
		if _, err := e.parsed.parse(m); err != nil {
			bad = append(bad, m.Path)
		}
		e.turns.give()
	}
	return jsonText(bad)
}

// compilePolicy parses and compiles modules, and refuses what this engine does not run. Other calls are let in meanwhile.
func (e *engine) compilePolicy(modulesText string) (*policy, error) {
	var modules []module
	if err := json.Unmarshal([]byte(modulesText), &modules); err != nil {
		return nil, err
	}
	if e.compiled != nil && slices.Equal(e.compiled.modules, modules) {
		return e.compiled, nil
	}
	e.turns.begin()
	parsed := make(map[string]*ast.Module, len(modules))
	var failures ast.Errors
	for _, m := range modules {
		one, err := e.parsed.parse(m)
		if err != nil {
			failures = append(failures, parseErrors(m, err)...)
			continue
		}
		parsed[m.Path] = one
		e.turns.give()
	}
	if len(failures) > 0 {
		return nil, failures
	}
	compiler := e.newCompiler()
	if compiler.Compile(parsed); compiler.Failed() {
		return nil, compiler.Errors
	}
	p := &policy{modules: modules, compiler: compiler, queries: map[string]*query{}, exact: map[*ast.Rule]exactRule{}}
	if err := refuseBuiltins(compiler, hasFetch(e.host)); err != nil {
		return nil, err
	}
	e.compiled = p
	return p, nil
}

// newCompiler makes a compiler that lets other calls in between its stages.
func (e *engine) newCompiler() *ast.Compiler {
	compiler := ast.NewCompiler()
	for _, stage := range ast.AllStages() {
		compiler.WithStageAfterID(stage, ast.CompilerStageDefinition{
			Name: "Turn", MetricName: "turn",
			Stage: func(*ast.Compiler) *ast.Error {
				e.turns.give()
				return nil
			},
		})
	}
	return compiler
}

func parseErrors(m module, err error) ast.Errors {
	switch err := err.(type) {
	case ast.Errors:
		return err
	case *ast.Error:
		return ast.Errors{err}
	default:
		return ast.Errors{ast.NewError(ast.ParseErr, ast.NewLocation(nil, m.Path, 1, 1), "%v", err)}
	}
}

func (p *policy) facts() (any, error) {
	paths := [][]string{}
	for _, name := range util.KeysSorted(p.compiler.Modules) {
		m := p.compiler.Modules[name]
		for _, rule := range m.Rules {
			if path, ok := pathOf(rule.Ref().GroundPrefix()); ok {
				paths = append(paths, path)
			}
		}
	}
	slices.SortFunc(paths, slices.Compare)
	paths = slices.CompactFunc(paths, slices.Equal)
	builtins := []string{}
	if p.compiler.Required != nil {
		for _, b := range p.compiler.Required.Builtins {
			builtins = append(builtins, b.Name)
		}
	}
	slices.Sort(builtins)
	return jsonText(facts{RulePaths: paths, Builtins: slices.Compact(builtins)})
}

// pathOf returns a reference below data as the segments of a path; false if a segment is no text.
func pathOf(ref ast.Ref) ([]string, bool) {
	path := make([]string, 0, len(ref))
	for _, term := range ref[1:] {
		key, ok := term.Value.(ast.String)
		if !ok {
			return path, false
		}
		path = append(path, string(key))
	}
	return path, true
}

func jsonText(value any) (any, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	return string(text), nil
}
