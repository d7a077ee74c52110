//go:build js && wasm

package main

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/dependencies"
)

// ruleDependencies finds what an entrypoint depends on: rules by the compiler's graph, documents by the references of the rules.
type ruleDependencies struct {
	compiler *ast.Compiler
	// reads has the documents that one rule names itself.
	reads map[*ast.Rule][][]string
	// open has the references of one rule with keys that may be numbers.
	open map[*ast.Rule][]openRef
}

func newDependencies(c *ast.Compiler) *ruleDependencies {
	return &ruleDependencies{compiler: c, reads: map[*ast.Rule][][]string{}, open: map[*ast.Rule][]openRef{}}
}

// rulesOf returns the rules of a reference and all that they depend on.
func (d *ruleDependencies) rulesOf(ref ast.Ref) []*ast.Rule {
	seen := map[*ast.Rule]bool{}
	var order []*ast.Rule
	var visit func(rule *ast.Rule)
	visit = func(rule *ast.Rule) {
		if seen[rule] {
			return
		}
		seen[rule] = true
		order = append(order, rule)
		for next := range d.compiler.Graph.Dependencies(rule) {
			if found, ok := next.(*ast.Rule); ok {
				visit(found)
			}
		}
		// All rules of one name are one result, and a default or an else stands beside what it completes.
		for _, other := range d.compiler.GetRulesExact(rule.Ref().GroundPrefix()) {
			visit(other)
		}
		if rule.Else != nil {
			visit(rule.Else)
		}
	}
	for _, rule := range d.compiler.GetRules(ref) {
		visit(rule)
	}
	return order
}

// readsOf returns the paths of the documents that a reference and its rules depend on.
func (d *ruleDependencies) readsOf(ref ast.Ref, rules []*ast.Rule) [][]string {
	paths := d.documentsAt(nil, ref)
	for _, rule := range rules {
		paths = append(paths, d.readsOfRule(rule)...)
	}
	return withoutBelow(paths)
}

// openOf returns the references of rules with keys that may be numbers.
func (d *ruleDependencies) openOf(rules []*ast.Rule) []openRef {
	var all []openRef
	for _, rule := range rules {
		found, ok := d.open[rule]
		if !ok {
			refs, err := dependencies.All(rule)
			if err != nil {
				refs = []ast.Ref{{ast.DefaultRootDocument, ast.VarTerm("unknown")}}
			}
			for _, ref := range refs {
				if open, ok := d.openRefOf(ref); ok {
					found = append(found, open)
				}
			}
			d.open[rule] = found
		}
		all = append(all, found...)
	}
	return all
}

// withoutBelow sorts paths, and leaves out those below another one.
func withoutBelow(paths [][]string) [][]string {
	slices.SortFunc(paths, slices.Compare)
	kept := [][]string{}
	for _, path := range paths {
		// Sorted, a path comes right before all that lies below it.
		if last := len(kept) - 1; last >= 0 && isBelow(path, kept[last]) {
			continue
		}
		kept = append(kept, path)
	}
	return kept
}

func (d *ruleDependencies) readsOfRule(rule *ast.Rule) [][]string {
	if found, ok := d.reads[rule]; ok {
		return found
	}
	refs, err := dependencies.Minimal(rule)
	if err != nil {
		refs = []ast.Ref{{ast.DefaultRootDocument}} // unknown: all documents
	}
	var paths [][]string
	for _, ref := range refs {
		paths = d.documentsAt(paths, ref)
	}
	d.reads[rule] = paths
	return paths
}

// documentsAt adds the documents that a reference reads: those at its constant part, unless a rule stands there.
func (d *ruleDependencies) documentsAt(paths [][]string, ref ast.Ref) [][]string {
	if !ref.HasPrefix(ast.DefaultRootRef) {
		return paths
	}
	node := d.compiler.RuleTree.Child(ast.DefaultRootDocument.Value)
	path := []string{}
	for _, term := range ref.ConstantPrefix()[1:] {
		key, ok := term.Value.(ast.String)
		if !ok {
			break // an index: the document around it
		}
		path = append(path, string(key))
		if node != nil {
			if node = node.Child(key); node != nil && len(node.Values) > 0 {
				return paths // a rule, which no document can stand beside
			}
		}
	}
	return append(paths, path)
}

func isBelow(path, above []string) bool {
	return len(path) >= len(above) && slices.Equal(path[:len(above)], above)
}
