package config

import (
	"reflect"

	"github.com/goccy/go-yaml"
)

// YAML returns the effective settings, defaults included, in the form of a file that would give the same settings. Secrets
// are masked.
func (c *Config) YAML() []byte {
	out, err := yaml.MarshalWithOptions(tree(reflect.ValueOf(c).Elem()), yaml.IndentSequence(true))
	if err != nil {
		panic("config: print settings: " + err.Error()) // the tree holds only maps, lists and texts
	}
	return out
}

// tree turns settings into what a YAML encoder prints: ordered maps, lists and texts.
func tree(v reflect.Value) any {
	switch {
	case isScalar(v.Type()):
		return leaf(v)
	case v.Kind() == reflect.Struct:
		return structTree(v)
	case v.Kind() == reflect.Map:
		out := yaml.MapSlice{}
		if v.Type().Key().Kind() == reflect.Int {
			return statusTree(v)
		}
		for _, k := range sortedKeys(v) {
			out = append(out, yaml.MapItem{Key: k.Interface(), Value: tree(v.MapIndex(k))})
		}
		return out
	default:
		out := make([]any, 0, v.Len())
		for i := range v.Len() {
			out = append(out, tree(v.Index(i)))
		}
		return out
	}
}

// statusTree keeps status codes numbers.
func statusTree(v reflect.Value) map[int]any {
	out := make(map[int]any, v.Len())
	for _, k := range v.MapKeys() {
		out[int(k.Int())] = tree(v.MapIndex(k))
	}
	return out
}

// structTree leaves out what is empty, which means "none" wherever it is possible.
func structTree(v reflect.Value) yaml.MapSlice {
	out := yaml.MapSlice{}
	for _, f := range fieldsOf(v.Type()) {
		value := v.Field(f.index)
		if isScalar(value.Type()) && scalarText(value) == "" || f.key == "urls" && value.Len() == 0 {
			continue
		}
		out = append(out, yaml.MapItem{Key: f.key, Value: tree(value)})
	}
	return out
}

// leaf keeps what YAML has types for, so that it is printed without quotes.
func leaf(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Bool:
		return v.Bool()
	case reflect.Float64:
		return v.Float()
	}
	if v.Type() == reflect.TypeFor[int]() {
		return v.Int()
	}
	if text := scalarText(v); text != "true" && text != "false" {
		return text
	}
	return scalarText(v) == "true"
}
