//go:build js && wasm

package main

import (
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/storage"
)

// overlay is the documents as they will be: those below the roots of a change, and the active ones elsewhere. OPA's store can
// be asked the same within the transaction, but copies large documents for each question.
type overlay struct {
	active  any
	next    *change
	roots   map[string]bool
	parents map[string]bool
	// numberKeys keeps what was found, by reference.
	numberKeys map[string]bool
}

func (e *engine) newOverlay(next *change) (*overlay, error) {
	o := &overlay{next: next, roots: map[string]bool{}, parents: map[string]bool{}, numberKeys: map[string]bool{}}
	for _, root := range next.roots {
		o.roots[keyOf(root)] = true
		if _, ok := lookup(next.documents, root); !ok {
			continue
		}
		for depth := range root {
			o.parents[keyOf(root[:depth])] = true
		}
	}
	err := storage.Txn(e.ctx, e.store, storage.TransactionParams{}, func(txn storage.Transaction) error {
		var err error
		o.active, err = e.store.Read(e.ctx, txn, storage.Path{})
		return err
	})
	return o, err
}

// exists tells whether a path has a document, or lies below one that is no object, as storage.NonEmpty does.
func (o *overlay) exists(path []string) (bool, error) {
	at, isThere := o.active, true
	if o.roots[keyOf(nil)] {
		at = any(o.next.documents)
	}
	for depth := 1; depth <= len(path); depth++ {
		here := path[:depth]
		switch {
		case o.roots[keyOf(here)]:
			at, isThere = lookup(o.next.documents, here)
		case isThere:
			object, ok := at.(map[string]any)
			if !ok {
				return true, nil
			}
			at, isThere = object[here[depth-1]]
		}
	}
	return isThere || o.parents[keyOf(path)], nil
}

// numberKeyReason says why references with keys that may be numbers keep their entrypoint with Go; empty if they do not.
func (o *overlay) numberKeyReason(refs []openRef) string {
	for _, ref := range refs {
		at := ref.String()
		found, ok := o.numberKeys[at]
		if !ok {
			written, _ := lookup(o.next.documents, ref.path)
			found = hasNumberKey(written, ref.keys)
			if !found && !o.replaces(ref.path) {
				active, _ := lookup(o.active, ref.path)
				found = hasNumberKey(active, ref.keys)
			}
			o.numberKeys[at] = found
		}
		if found {
			return fmt.Sprintf("the document %s has members whose names are numbers", storage.Path(ref.path))
		}
	}
	return ""
}

// replaces tells whether a path is at or below a root.
func (o *overlay) replaces(path []string) bool {
	for depth := range len(path) + 1 {
		if o.roots[keyOf(path[:depth])] {
			return true
		}
	}
	return false
}

// keyOf is a path as a key of a map.
func keyOf(path []string) string {
	key := ""
	if len(path) > 0 {
		key = "\x00" + strings.Join(path, "\x00")
	}
	return key
}
