//go:build js && wasm

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/plugins"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/util"
)

// change is a policy and the documents that replace those below its roots, not active yet.
type change struct {
	policy    *policy
	roots     []storage.Path
	documents map[string]any
}

// op is one change of the documents: no value removes.
type op struct {
	Path  []string `json:"path"`
	Value *string  `json:"text"`
}

// decode reads one JSON value; numbers stay as they are written.
func decode(text string) (any, error) {
	d := util.NewJSONDecoder(strings.NewReader(text))
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text after the JSON value")
	}
	return value, nil
}

func decodeObject(text string) (map[string]any, error) {
	value, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("documents: %w", err)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("documents: the root must be an object")
	}
	return object, nil
}

// check compiles a policy, and compares its rules with its documents. It changes nothing.
func (e *engine) check(modulesText, documentsText string) (any, error) {
	documents, err := decodeObject(documentsText)
	if err != nil {
		return nil, err
	}
	p, err := e.compilePolicy(modulesText)
	if err != nil {
		return nil, err
	}
	alone := &overlay{active: documents, next: &change{}}
	if err := conflicts(p, alone.exists); err != nil {
		return nil, err
	}
	return p.facts()
}

// prepare makes a policy and its documents ready for commit.
func (e *engine) prepare(modulesText, rootsText, documentsText string) (any, error) {
	e.attempt++
	mine := e.attempt
	e.prepared = nil
	var roots []storage.Path
	if err := json.Unmarshal([]byte(rootsText), &roots); err != nil {
		return nil, err
	}
	p, err := e.compilePolicy(modulesText)
	if err != nil {
		return nil, err
	}
	documents, err := decodeObject(documentsText)
	if err != nil {
		return nil, err
	}
	next := &change{policy: p, roots: roots, documents: documents}
	if err := e.conflictsOf(next); err != nil {
		return nil, err
	}
	txn, err := e.store.NewTransaction(e.ctx, storage.WriteParams)
	if err != nil {
		return nil, err
	}
	err = e.apply(txn, next)
	e.store.Abort(e.ctx, txn)
	if err != nil {
		return nil, err
	}
	if mine != e.attempt {
		return nil, errors.New("another policy was prepared meanwhile, or this one was given up")
	}
	e.prepared = next
	return p.facts()
}

// commit activates what is prepared.
func (e *engine) commit() error {
	next := e.prepared
	e.attempt++
	e.prepared = nil
	if next == nil {
		return errors.New("no policy is prepared")
	}
	if err := e.conflictsOf(next); err != nil { // documents may have been written meanwhile
		return err
	}
	params := storage.WriteParams
	params.Context = storage.NewContext()
	plugins.SetCompilerOnContext(params.Context, next.policy.compiler)
	err := storage.Txn(e.ctx, e.store, params, func(txn storage.Transaction) error {
		return e.apply(txn, next)
	})
	if err != nil {
		return err
	}
	e.active = next.policy
	e.parsed.keepOnly(e.active)
	return nil
}

// abort gives up what is prepared.
func (e *engine) abort() {
	e.attempt++
	e.prepared = nil
	e.compiled = nil
	e.parsed.keepOnly(e.active)
}

// apply writes modules and documents in a transaction: what is below the roots is replaced.
func (e *engine) apply(txn storage.Transaction, next *change) error {
	if err := e.replaceModules(txn, next.policy); err != nil {
		return err
	}
	for _, root := range next.roots {
		if len(root) == 0 {
			if err := e.store.Write(e.ctx, txn, storage.AddOp, root, map[string]any{}); err != nil {
				return err
			}
			continue
		}
		if err := e.store.Write(e.ctx, txn, storage.RemoveOp, root, nil); err != nil && !storage.IsNotFound(err) {
			return err
		}
	}
	for _, root := range next.roots {
		value, ok := lookup(next.documents, root)
		if !ok {
			continue
		}
		if err := e.put(txn, root, value); err != nil {
			return err
		}
	}
	return nil
}

func (e *engine) replaceModules(txn storage.Transaction, next *policy) error {
	held, err := e.store.ListPolicies(e.ctx, txn)
	if err != nil {
		return err
	}
	texts := make(map[string]string, len(next.modules))
	for _, m := range next.modules {
		texts[m.Path] = m.Rego
	}
	for _, id := range held {
		if _, stays := texts[id]; !stays {
			if err := e.store.DeletePolicy(e.ctx, txn, id); err != nil {
				return err
			}
		}
	}
	for _, m := range next.modules {
		if err := e.store.UpsertPolicy(e.ctx, txn, m.Path, []byte(m.Rego)); err != nil {
			return err
		}
	}
	return nil
}

func lookup(documents any, path []string) (any, bool) {
	at := documents
	for _, key := range path {
		object, ok := at.(map[string]any)
		if !ok {
			return nil, false
		}
		if at, ok = object[key]; !ok {
			return nil, false
		}
	}
	return at, true
}

func (e *engine) put(txn storage.Transaction, path storage.Path, value any) error {
	if len(path) > 1 {
		if err := storage.MakeDir(e.ctx, e.store, txn, path[:len(path)-1]); err != nil {
			return err
		}
	}
	return e.store.Write(e.ctx, txn, storage.AddOp, path, value)
}

// decoded is the value of a change.
func (o op) decoded() (any, error) {
	value, err := decode(*o.Value)
	if err != nil {
		return nil, fmt.Errorf("document %s: %w", storage.Path(o.Path), err)
	}
	return value, nil
}

// write changes documents in one transaction, or none of them.
func (e *engine) write(opsText string) error {
	var ops []op
	if err := json.Unmarshal([]byte(opsText), &ops); err != nil {
		return err
	}
	return storage.Txn(e.ctx, e.store, storage.WriteParams, func(txn storage.Transaction) error {
		if err := e.writeOps(txn, ops); err != nil {
			return err
		}
		exists := storage.NonEmpty(e.ctx, e.store, txn)
		for _, one := range ops {
			if one.Value == nil {
				continue
			}
			if err := conflictsAt(e.active, one.Path, exists); err != nil {
				return err
			}
		}
		return nil
	})
}

func (e *engine) writeOps(txn storage.Transaction, ops []op) error {
	if len(ops) >= batchFrom {
		if err := e.writeBatch(txn, ops); !errors.Is(err, errArray) {
			return err
		}
	}
	for _, one := range ops {
		if one.Value == nil {
			err := e.store.Write(e.ctx, txn, storage.RemoveOp, one.Path, nil)
			if err != nil && !storage.IsNotFound(err) {
				return err
			}
			continue
		}
		value, err := one.decoded()
		if err != nil {
			return err
		}
		if err := e.put(txn, one.Path, value); err != nil {
			return err
		}
	}
	return nil
}

// conflictsOf compares the rules of a change with the documents as they will be.
func (e *engine) conflictsOf(next *change) error {
	documents, err := e.newOverlay(next)
	if err != nil {
		return err
	}
	return conflicts(next.policy, documents.exists)
}

// conflicts compares all rules with the documents that exist.
func conflicts(p *policy, exists func([]string) (bool, error)) error {
	if errs := ast.CheckPathConflicts(p.compiler, exists); len(errs) > 0 {
		errs.Sort()
		return errs
	}
	return nil
}

// conflictsAt compares the rules above, at and below one document, as OPA's own check does for all rules.
func conflictsAt(p *policy, path []string, exists func([]string) (bool, error)) error {
	node := p.compiler.RuleTree.Child(ast.DefaultRootDocument.Value)
	var errs ast.Errors
	for i, key := range path {
		if node == nil {
			return nil
		}
		if node = node.Child(ast.String(key)); node != nil && i < len(path)-1 {
			errs = append(errs, conflictOf(node, path[:i+1], exists)...)
		}
	}
	if node != nil {
		errs = append(errs, conflictsBelow(node, path, exists)...)
	}
	if len(errs) == 0 {
		return nil
	}
	return errs
}

func conflictsBelow(node *ast.TreeNode, path []string, exists func([]string) (bool, error)) ast.Errors {
	errs := conflictOf(node, path, exists)
	for _, child := range node.Children {
		if key, ok := child.Key.(ast.String); ok {
			errs = append(errs, conflictsBelow(child, append(slices.Clone(path), string(key)), exists)...)
		}
	}
	return errs
}

func conflictOf(node *ast.TreeNode, path []string, exists func([]string) (bool, error)) ast.Errors {
	if len(node.Values) == 0 || len(path) == 0 {
		return nil
	}
	at, name := node.Values[0].Loc(), strings.Join(path, "/")
	found, err := exists(path)
	if err != nil {
		return ast.Errors{ast.NewError(ast.CompileErr, at, "conflict check for data path %v: %v", name, err)}
	}
	if found {
		return ast.Errors{ast.NewError(ast.CompileErr, at, "conflicting rule for data path %v found", name)}
	}
	return nil
}
