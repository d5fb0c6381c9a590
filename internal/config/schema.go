package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// field is one key of a struct of the schema.
type field struct {
	key string
	// is names a constraint: "positive" refuses 0, "required" refuses absence.
	is    string
	index int
}

func fieldsOf(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		if key := f.Tag.Get("yaml"); key != "" {
			out = append(out, field{key: key, is: f.Tag.Get("is"), index: i})
		}
	}
	return out
}

func keysOf(fields []field) []string {
	keys := make([]string, 0, len(fields))
	for _, f := range fields {
		keys = append(keys, f.key)
	}
	return keys
}

// Keys lists every key of the schema, such as "fill.backoff.first" and "rules[].match.path". A map's keys are written
// as "<name>".
func Keys() []string { return appendKeys(nil, "", reflect.TypeFor[Config]()) }

func appendKeys(out []string, path string, t reflect.Type) []string {
	switch {
	case isScalar(t):
		return append(out, path)
	case t.Kind() == reflect.Struct:
		for _, f := range fieldsOf(t) {
			out = appendKeys(out, join(path, f.key), t.Field(f.index).Type)
		}
		return out
	case t.Kind() == reflect.Map:
		return appendKeys(out, join(path, "<name>"), t.Elem())
	case isScalar(t.Elem()):
		return append(out, path)
	default:
		return appendKeys(out, path+"[]", t.Elem())
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// elsewhere returns the place in the schema where key would be known, "" if there is none or there are several.
func elsewhere(key string) string {
	found := ""
	for _, k := range Keys() {
		at := strings.Index("."+k+".", "."+key+".")
		if at < 0 {
			continue
		}
		place := k[:at+len(key)]
		if found != "" && found != place {
			return ""
		}
		found = place
	}
	return found
}

var (
	scalarType = reflect.TypeFor[scalar]()
	prefixType = reflect.TypeFor[netip.Prefix]()
)

func isScalar(t reflect.Type) bool {
	switch {
	case reflect.PointerTo(t).Implements(scalarType), t == prefixType:
		return true
	}
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.String:
		return true
	default:
		return false
	}
}

// setScalar parses text into v, whose type isScalar. The error is a *mistake.
func setScalar(v reflect.Value, is, text string) error {
	if err := parseScalar(v, text); err != nil {
		return err
	}
	if is == "positive" && v.IsZero() {
		return wrong("0 is not possible here", "write a positive value, or remove the key for the default")
	}
	return nil
}

func parseScalar(v reflect.Value, text string) (err error) {
	switch p := v.Addr().Interface().(type) {
	case scalar:
		return p.parse(text)
	case *netip.Prefix:
		*p, err = parsePrefix(text)
	case *bool:
		*p, err = parseBool(text)
	case *int:
		*p, err = parseCount(text)
	case *string:
		*p, err = parseText(text)
	default:
		panic(fmt.Sprintf("config: no parser for %s", v.Type()))
	}
	return err
}

func parseText(text string) (string, error) {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", wrong("the text has control characters", "write it on one line")
	}
	return text, nil
}

// scalarText is the inverse of setScalar.
func scalarText(v reflect.Value) string {
	if !v.CanAddr() {
		held := reflect.New(v.Type()).Elem()
		held.Set(v)
		v = held
	}
	switch p := v.Addr().Interface().(type) {
	case scalar:
		return p.text()
	case *netip.Prefix:
		return p.String()
	default:
		return fmt.Sprint(v.Interface())
	}
}

// kindName says in words what a value of type t looks like.
func kindName(t reflect.Type) string {
	switch {
	case isScalar(t):
		return "a single value"
	case t.Kind() == reflect.Slice:
		return "a list"
	default:
		return "a group of keys"
	}
}

// setMapKey parses a map's key.
func setMapKey(v reflect.Value, text string) error {
	if v.Kind() == reflect.Int {
		status, err := strconv.Atoi(text)
		if err != nil || status < 200 || status > 599 {
			return wrong(fmt.Sprintf("%q is not a final status", text), "write a status code from 200 to 599, such as 404")
		}
		v.SetInt(int64(status))
		return nil
	}
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return wrong(fmt.Sprintf("%q is not a name", text), "write a name without blanks")
	}
	v.SetString(text)
	return nil
}

// sortedKeys returns a map's keys in order.
func sortedKeys(v reflect.Value) []reflect.Value {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int {
		if a.Kind() == reflect.Int {
			return cmp.Compare(a.Int(), b.Int())
		}
		return cmp.Compare(a.String(), b.String())
	})
	return keys
}
