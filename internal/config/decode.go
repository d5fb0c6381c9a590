package config

import (
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

const (
	// maxNodes bounds the values of a file with aliases expanded; a large real file has a few thousand.
	maxNodes = 100_000
	// maxDepth bounds nesting; the schema needs seven levels.
	maxDepth = 40
)

// decoder fills settings from a document. Not safe for concurrent use.
type decoder struct {
	*source
	env     func(string) (string, bool)
	anchors map[string]ast.Node
	nodes   int
	stopped bool
}

// defaulter is implemented by elements of maps and lists that do not begin as zero.
type defaulter interface{ setDefaults() }

// decode fills v from n and records what is wrong under path.
func (d *decoder) decode(path string, n ast.Node, v reflect.Value, is string, depth int) {
	at := placeOf(n)
	n = d.resolve(path, n)
	if n == nil || !d.spend(path, at, depth) {
		return
	}
	if _, alias := d.at[path]; !alias {
		d.at[path] = at
	}
	switch t := v.Type(); {
	case isScalar(t):
		d.decodeScalar(path, n, v, is)
	case t.Kind() == reflect.Struct:
		d.decodeStruct(path, n, v, depth)
	case t.Kind() == reflect.Map:
		d.decodeMap(path, n, v, depth)
	default:
		d.decodeList(path, n, v, depth)
	}
}

// spend keeps aliases from growing a small file into an endless one.
func (d *decoder) spend(path string, at place, depth int) bool {
	if d.nodes++; d.stopped || d.nodes <= maxNodes && depth <= maxDepth {
		return !d.stopped
	}
	d.stopped = true
	d.add(path, at, wrong("the file nests too deeply or its aliases expand too far", "write the values out"))
	return false
}

// resolve follows aliases and drops anchors and tags.
func (d *decoder) resolve(path string, n ast.Node) ast.Node {
	for range maxDepth {
		switch t := n.(type) {
		case *ast.AnchorNode:
			n = t.Value
		case *ast.TagNode:
			n = t.Value
		case *ast.AliasNode:
			target, ok := d.anchors[nameOf(t.Value)]
			if !ok {
				d.add(path, placeOf(t), wrong(fmt.Sprintf("no anchor &%s before this alias", nameOf(t.Value)), "define the anchor first, or quote a text that begins with *"))
				return nil
			}
			n = target
		default:
			return n
		}
		if n == nil {
			return nil
		}
	}
	d.add(path, placeOf(n), wrong("the alias refers to itself", "write the value out"))
	return nil
}

func nameOf(n ast.Node) string {
	if n == nil || n.GetToken() == nil {
		return ""
	}
	return n.GetToken().Value
}

// Visit collects anchors; it makes decoder an ast.Visitor.
func (d *decoder) Visit(n ast.Node) ast.Visitor {
	if a, ok := n.(*ast.AnchorNode); ok {
		d.anchors[nameOf(a.Name)] = a.Value
	}
	return d
}

func (d *decoder) decodeScalar(path string, n ast.Node, v reflect.Value, is string) {
	text, ok := scalarOf(n)
	if !ok {
		d.add(path, placeOf(n), wrong("a single value is needed here, not "+nodeName(n), "write one value after the colon"))
		return
	}
	if v.Type() == reflect.TypeFor[Secret]() {
		d.secrets = append(d.secrets, text)
	}
	text, err := expand(text, d.env)
	if err == nil {
		err = setScalar(v, is, text)
	}
	if err != nil {
		d.add(path, placeOf(n), err)
	}
}

// scalarOf returns a scalar's text as written, quotes and escapes undone.
func scalarOf(n ast.Node) (string, bool) {
	switch t := n.(type) {
	case *ast.StringNode:
		return t.Value, true
	case *ast.LiteralNode:
		return strings.TrimSuffix(t.Value.Value, "\n"), true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	default:
		return "", false
	}
}

func nodeName(n ast.Node) string {
	switch n.(type) {
	case *ast.SequenceNode:
		return "a list"
	case ast.MapNode:
		return "a group of keys"
	default:
		return "a single value"
	}
}

func (d *decoder) decodeStruct(path string, n ast.Node, v reflect.Value, depth int) {
	fields := fieldsOf(v.Type())
	pairs, ok := d.pairs(path, n, v.Type(), depth)
	if !ok {
		return
	}
	seen := map[string]bool{}
	for _, p := range pairs {
		f, known := fieldNamed(fields, p.key)
		if !known {
			d.unknownKey(path, p, fields)
			continue
		}
		seen[p.key] = true
		d.decodeValue(join(path, p.key), p, v.Field(f.index), f.is, depth)
	}
	for _, f := range fields {
		if f.is == "required" && !seen[f.key] {
			d.add(path, placeOf(n), wrong(fmt.Sprintf("%s is missing", f.key), "add "+f.key+": …"))
		}
	}
}

func fieldNamed(fields []field, key string) (field, bool) {
	for _, f := range fields {
		if f.key == key {
			return f, true
		}
	}
	return field{}, false
}

func (d *decoder) unknownKey(path string, p pair, fields []field) {
	if path == "" && strings.HasPrefix(p.key, "x-") {
		return // a place for anchors
	}
	keys := keysOf(fields)
	mend := "the keys here are " + strings.Join(keys, ", ")
	if other := elsewhere(p.key); other != "" {
		mend = fmt.Sprintf("did you mean %s? Here the keys are %s", other, strings.Join(keys, ", "))
	} else if near := nearest(p.key, keys); near != "" {
		mend = fmt.Sprintf("did you mean %s?", near)
	}
	d.add(join(path, p.key), placeOf(p.keyNode), wrong(fmt.Sprintf("unknown key %q", p.key), mend))
}

func (d *decoder) decodeMap(path string, n ast.Node, v reflect.Value, depth int) {
	pairs, ok := d.pairs(path, n, v.Type(), depth)
	if !ok {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, p := range pairs {
		key := reflect.New(v.Type().Key()).Elem()
		if err := setMapKey(key, p.key); err != nil {
			d.add(join(path, p.key), placeOf(p.keyNode), err)
			continue
		}
		elem := newElement(v.Type().Elem())
		d.decodeValue(join(path, p.key), p, elem, "", depth)
		v.SetMapIndex(key, elem)
	}
}

// decodeValue decodes a key's value. An empty group or list is one that was left out, an empty single value a mistake.
func (d *decoder) decodeValue(path string, p pair, v reflect.Value, is string, depth int) {
	switch {
	case !isNull(p.value):
		d.decode(path, p.value, v, is, depth+1)
	case isScalar(v.Type()):
		d.add(path, placeOf(p.keyNode), wrong("the key has no value", "write a value, or remove the key for the default"))
	default:
		d.at[path] = placeOf(p.keyNode)
	}
}

func isNull(n ast.Node) bool { return n == nil || n.Type() == ast.NullType }

func newElement(t reflect.Type) reflect.Value {
	p := reflect.New(t)
	if def, ok := p.Interface().(defaulter); ok {
		def.setDefaults()
	}
	return p.Elem()
}

// decodeList takes a list. A list of single values, or of certificates, may be written as one element alone.
func (d *decoder) decodeList(path string, n ast.Node, v reflect.Value, depth int) {
	elemType := v.Type().Elem()
	seq, ok := n.(*ast.SequenceNode)
	switch {
	case ok:
	case isNull(n):
		return
	case isScalar(elemType) && nodeName(n) == "a single value", elemType == reflect.TypeFor[Certificate]():
		seq = &ast.SequenceNode{Values: []ast.Node{n}}
	default:
		d.add(path, placeOf(n), wrong("a list is needed here, not "+nodeName(n), "begin each element on its own line with - "))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, len(seq.Values)))
	for i, item := range seq.Values {
		elem := newElement(elemType)
		d.decode(fmt.Sprintf("%s[%d]", path, i), item, elem, "", depth+1)
		v.Set(reflect.Append(v, elem))
	}
}

func lookupEnv(env func(string) (string, bool)) func(string) (string, bool) {
	if env == nil {
		return os.LookupEnv
	}
	return env
}
