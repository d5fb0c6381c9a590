package config

import (
	"reflect"
	"strings"
)

// Changes lists the keys, in the schema's order, whose values differ between c and next. Elements of lists and maps are
// not told apart: a changed rule is "rules".
func (c *Config) Changes(next *Config) []string {
	return changes(nil, "", reflect.ValueOf(c).Elem(), reflect.ValueOf(next).Elem())
}

func changes(out []string, path string, a, b reflect.Value) []string {
	if a.Kind() == reflect.Struct && !isScalar(a.Type()) {
		for _, f := range fieldsOf(a.Type()) {
			out = changes(out, join(path, f.key), a.Field(f.index), b.Field(f.index))
		}
		return out
	}
	if same(a, b) {
		return out
	}
	return append(out, path)
}

// same compares lists and maps as they are printed, where one that was left out is like an empty one.
func same(a, b reflect.Value) bool {
	if isScalar(a.Type()) {
		return a.Equal(b)
	}
	return reflect.DeepEqual(tree(a), tree(b))
}

// Under reports whether key is one of the sections or below one: "log.level" is under "log".
func Under(key string, sections ...string) bool {
	for _, s := range sections {
		if key == s || strings.HasPrefix(key, s+".") {
			return true
		}
	}
	return false
}
