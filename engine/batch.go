//go:build js && wasm

package main

import (
	"errors"
	"maps"

	"github.com/open-policy-agent/opa/v1/storage"
)

// batchFrom is the number of changes from which a batch is faster: OPA's store compares each change of a transaction with all
// others.
const batchFrom = 32

// errArray is returned where a path leads into an array, which a batch does not do.
var errArray = errors.New("a path leads into an array")

// batch makes many changes to a copy of the documents: only objects that change are copied, each once.
type batch struct {
	object map[string]any
	inside map[string]*batch
}

func newBatch(object map[string]any) *batch {
	return &batch{object: maps.Clone(object), inside: map[string]*batch{}}
}

func (b *batch) put(whole storage.Path, depth int, value any) error {
	key := whole[depth]
	if depth == len(whole)-1 {
		delete(b.inside, key)
		b.object[key] = value
		return nil
	}
	next, err := b.enter(whole[:depth+1], true)
	if err != nil {
		return err
	}
	return next.put(whole, depth+1, value)
}

func (b *batch) remove(whole storage.Path, depth int) error {
	key := whole[depth]
	if depth == len(whole)-1 {
		delete(b.inside, key)
		delete(b.object, key)
		return nil
	}
	next, err := b.enter(whole[:depth+1], false)
	if err != nil || next == nil {
		return err
	}
	return next.remove(whole, depth+1)
}

// enter returns the copied object at the last key of a path; nil if there is none, and none is to be made.
func (b *batch) enter(path storage.Path, make bool) (*batch, error) {
	key := path[len(path)-1]
	if next, ok := b.inside[key]; ok {
		return next, nil
	}
	var next *batch
	switch held := b.object[key].(type) {
	case map[string]any:
		next = newBatch(held)
	case []any:
		return nil, errArray
	default:
		if _, isThere := b.object[key]; isThere && make {
			return nil, &storage.Error{Code: storage.WriteConflictErr, Message: path.String()}
		}
		if !make {
			return nil, nil
		}
		next = newBatch(map[string]any{})
	}
	b.object[key] = next.object
	b.inside[key] = next
	return next, nil
}

// writeBatch makes all changes at once. errArray: nothing was written, and OPA's store can do it.
func (e *engine) writeBatch(txn storage.Transaction, ops []op) error {
	held, err := e.store.Read(e.ctx, txn, storage.Path{})
	if err != nil {
		return err
	}
	object, ok := held.(map[string]any)
	if !ok {
		return errArray
	}
	all := newBatch(object)
	for _, one := range ops {
		if len(one.Path) == 0 {
			return errArray // the root as a whole
		}
		if one.Value == nil {
			if err := all.remove(one.Path, 0); err != nil {
				return err
			}
			continue
		}
		value, err := one.decoded()
		if err != nil {
			return err
		}
		if err := all.put(one.Path, 0, value); err != nil {
			return err
		}
	}
	return e.store.Write(e.ctx, txn, storage.AddOp, storage.Path{}, all.object)
}
