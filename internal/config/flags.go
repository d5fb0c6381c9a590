package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Flag is one setting from the command line.
type Flag struct {
	// Name is how the user wrote it, such as "--listen".
	Name string
	// Path is the key that it sets: one of Keys whose value is single or a list of single values; "rules[].…" for every rule, the implied
	// one included; or PathOrigin.
	Path string
	// Values are its texts, in the same form as in a file. A key with a single value takes the last.
	Values []string
}

// PathOrigin is the path of a flag that gives the URLs of the only origin.
const PathOrigin = "origin"

// flagOrigin names the origin of a command line without a file.
const flagOrigin = "origin"

const everyRule = "rules[]."

// overlay sets what flags say, but for rules, which may not exist yet.
func (s *source) overlay(cfg *Config, flags []Flag) {
	for _, f := range flags {
		switch {
		case f.Path == PathOrigin:
			s.overlayOrigin(cfg, f)
		case !strings.HasPrefix(f.Path, everyRule):
			s.set(reflect.ValueOf(cfg).Elem(), f, "", f.Path)
		}
	}
}

// overlayRules sets what flags say about every rule.
func (s *source) overlayRules(cfg *Config, flags []Flag) {
	for _, f := range flags {
		key, ok := strings.CutPrefix(f.Path, everyRule)
		for i := range cfg.Rules {
			if ok {
				s.set(reflect.ValueOf(&cfg.Rules[i]).Elem(), f, rulePath(i), key)
			}
		}
	}
}

// set walks from v along path and sets what is there. base is the path of v itself.
func (s *source) set(v reflect.Value, f Flag, base, path string) {
	is := ""
	for key := range strings.SplitSeq(path, ".") {
		known, ok := fieldNamed(fieldsOf(v.Type()), key)
		if !ok {
			panic(fmt.Sprintf("config: flag %s: no key %s", f.Name, f.Path))
		}
		v, is = v.Field(known.index), known.is
	}
	s.flags[join(base, path)] = f.Name
	s.setTexts(v, f, is)
}

func (s *source) setTexts(v reflect.Value, f Flag, is string) {
	if isScalar(v.Type()) {
		for _, text := range f.Values {
			s.flagError(f, setScalar(v, is, text))
		}
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, len(f.Values)))
	for _, text := range f.Values {
		elem := reflect.New(v.Type().Elem()).Elem()
		s.flagError(f, setScalar(elem, is, text))
		v.Set(reflect.Append(v, elem))
	}
}

func (s *source) flagError(f Flag, err error) {
	if m, ok := err.(*mistake); ok {
		p := Problem{File: f.Name, What: m.what, Mend: m.mend}
		if !slices.Contains(s.problems, p) { // a flag for every rule would repeat it
			s.problems = append(s.problems, p)
		}
		s.broken = append(s.broken, f.Path)
	}
}

// overlayOrigin replaces the URLs of the only origin, or makes it.
func (s *source) overlayOrigin(cfg *Config, f Flag) {
	name, o := flagOrigin, Origin{}
	o.setDefaults()
	switch len(cfg.Origins) {
	case 0:
	case 1:
		for name, o = range cfg.Origins {
		}
	default:
		s.problems = append(s.problems, Problem{
			File: f.Name, What: "the file has several origins, so this flag can not tell which one to replace",
			Mend: "change the url in " + s.name(),
		})
		return
	}
	o.URL, o.URLs = "", nil
	s.setTexts(reflect.ValueOf(&o.URLs).Elem(), f, "")
	path := "origins." + name
	s.flags[path], s.flags[path+".urls"] = f.Name, f.Name
	delete(s.at, path+".url")
	cfg.Origins[name] = o
}

func rulePath(i int) string { return fmt.Sprintf("rules[%d]", i) }
