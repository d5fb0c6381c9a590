package config

import (
	"fmt"
	"reflect"

	"github.com/goccy/go-yaml/ast"
)

// pair is one key and its value.
type pair struct {
	key     string
	keyNode ast.Node
	value   ast.Node
}

// pairs lists a mapping's entries: its own in their order, then those merged with << that it does not set itself. Duplicates
// are recorded. ok is false if n is no mapping.
func (d *decoder) pairs(path string, n ast.Node, t reflect.Type, depth int) (out []pair, ok bool) {
	if isNull(n) {
		return nil, true
	}
	m, ok := n.(ast.MapNode)
	if !ok {
		d.add(path, placeOf(n), wrong(kindName(t)+" is needed here, not "+nodeName(n), "write key: value lines below it"))
		return nil, false
	}
	first := map[string]place{}
	var merges []ast.Node
	for it := m.MapRange(); it.Next(); {
		if it.Key().IsMergeKey() {
			merges = append(merges, it.Value())
			continue
		}
		p, good := d.pairOf(path, it)
		if !good {
			continue
		}
		if before, twice := first[p.key]; twice {
			d.add(join(path, p.key), placeOf(p.keyNode), wrong(fmt.Sprintf("key %q is here twice", p.key), fmt.Sprintf("remove one; the first is in line %d", before.line)))
			continue
		}
		first[p.key] = placeOf(p.keyNode)
		out = append(out, p)
	}
	return d.merge(path, out, first, merges, t, depth), true
}

func (d *decoder) pairOf(path string, it *ast.MapNodeIter) (pair, bool) {
	key := d.resolve(path, unwrapKey(it.Key()))
	if key == nil {
		return pair{}, false
	}
	text, ok := scalarOf(key)
	if !ok {
		d.add(path, placeOf(key), wrong("a key must be a single value", "write key: value"))
		return pair{}, false
	}
	text, err := expand(text, d.env)
	if err != nil {
		d.add(path, placeOf(key), err)
		return pair{}, false
	}
	return pair{key: text, keyNode: key, value: it.Value()}, true
}

// unwrapKey undoes the "? key" spelling.
func unwrapKey(k ast.MapKeyNode) ast.Node {
	if m, ok := k.(*ast.MappingKeyNode); ok && m.Value != nil {
		return m.Value
	}
	return k
}

// merge appends the entries of << values, the first one that has a key winning.
func (d *decoder) merge(path string, out []pair, have map[string]place, merges []ast.Node, t reflect.Type, depth int) []pair {
	for _, n := range merges {
		at := placeOf(n)
		n = d.resolve(path, n)
		if n == nil || !d.spend(path, at, depth) {
			continue
		}
		sources := []ast.Node{n}
		if seq, ok := n.(*ast.SequenceNode); ok {
			sources = seq.Values
		}
		for _, src := range sources {
			out = d.mergeOne(path, out, have, src, t, depth)
		}
	}
	return out
}

func (d *decoder) mergeOne(path string, out []pair, have map[string]place, src ast.Node, t reflect.Type, depth int) []pair {
	at := placeOf(src)
	src = d.resolve(path, src)
	if src == nil || !d.spend(path, at, depth+1) {
		return out
	}
	pairs, _ := d.pairs(path, src, t, depth+1)
	for _, p := range pairs {
		if _, own := have[p.key]; !own {
			have[p.key] = placeOf(p.keyNode)
			out = append(out, p)
		}
	}
	return out
}
