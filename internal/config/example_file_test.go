package config

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml/ast"
	"github.com/google/go-cmp/cmp"
)

const exampleFile = "../../config.example.yaml"

func readExample(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// switchedOff are the lines that hold a key behind a "#".
var switchedOff = regexp.MustCompile(`(?m)^#((?: {2,})?[a-z_]+:(?: |$))`)

// withEverything switches on every key of the example.
func withEverything(text string) string { return switchedOff.ReplaceAllString(text, "$1") }

func exampleEnv(name string) (string, bool) { return "a-token", name == "SWRPROXY_ADMIN_TOKEN" }

func TestExampleFileLoads(t *testing.T) {
	cfg, err := Load(Options{File: exampleFile, Env: exampleEnv})
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Warnings()) > 0 {
		t.Errorf("warnings: %v", cfg.Warnings())
	}
	if len(cfg.Rules) != 1 || len(cfg.Origins) != 1 {
		t.Errorf("%d rules and %d origins, want one of each", len(cfg.Rules), len(cfg.Origins))
	}
}

// The keys that the example has once all are switched on are exactly those of the schema.
func TestExampleFileDocumentsEveryKey(t *testing.T) {
	text := withEverything(readExample(t))
	s := newSource(exampleFile, []byte(text))
	root, ok := s.parseDocument([]byte(text))
	if !ok {
		t.Fatal(s.err())
	}
	d := &decoder{source: s, env: exampleEnv, anchors: map[string]ast.Node{}}
	d.decode("", root, reflect.ValueOf(defaults(0)).Elem(), "", 0)
	if err := s.err(); err != nil {
		t.Fatalf("with every key switched on:\n%v", err)
	}
	index := regexp.MustCompile(`\[\d+\]`)
	have := map[string]bool{}
	for path := range s.at {
		path = index.ReplaceAllString(path, "[]")
		path = regexp.MustCompile(`^origins\.(app|pair)`).ReplaceAllString(path, "origins.<name>")
		path = regexp.MustCompile(`status_ttl\.\d+`).ReplaceAllString(path, "status_ttl.<name>")
		have[path] = true
		have[strings.TrimSuffix(path, "[]")] = true
		have[strings.Replace(path, "tls.", "tls[].", 1)] = true
	}
	for _, key := range Keys() {
		if !have[key] {
			t.Errorf("config.example.yaml says nothing about %s", key)
		}
	}
}

// exampleKey is one line of the example that sets a key.
type exampleKey struct {
	path, prose string
	line        int
}

// exampleKeys finds the keys by indentation and takes the comment above each.
func exampleKeys(text string) []exampleKey {
	keyLine := regexp.MustCompile(`^( *)([a-z_0-9]+):`)
	proseLine := regexp.MustCompile(`^ *(- )?# ?(.*)`)
	var out []exampleKey
	var stack []string
	prose := ""
	for i, line := range strings.Split(text, "\n") {
		if m := proseLine.FindStringSubmatch(line); m != nil {
			prose += m[2] + " "
			continue
		}
		m := keyLine.FindStringSubmatch(line)
		if m != nil {
			stack = append(stack[:len(m[1])/2], m[2])
			out = append(out, exampleKey{path: strings.Join(stack, "."), prose: prose, line: i + 1})
		}
		prose = ""
		// Elements of the rules list are indented once more than their key.
		if strings.HasPrefix(line, "rules:") {
			stack = append(stack, "")
		}
	}
	return out
}

func TestExampleFileExplainsEveryKey(t *testing.T) {
	absence := regexp.MustCompile(`Default|[Ll]eft out|Required|[Dd]efaults`)
	schema := strings.Join(Keys(), "\n")
	for _, k := range exampleKeys(withEverything(readExample(t))) {
		leaf := strings.NewReplacer("rules..", "rules[].", "origins.app.", "origins.<name>.", "origins.pair.", "origins.<name>.").Replace(k.path)
		if !strings.Contains("\n"+schema+"\n", "\n"+leaf+"\n") {
			continue // a group
		}
		if !absence.MatchString(k.prose) {
			t.Errorf("line %d: %s: no word about what leaving it out means: %q", k.line, k.path, k.prose)
		}
	}
}

// Where the example names a default, it is the one that the code has.
func TestExampleFileTellsTrueDefaults(t *testing.T) {
	stated := regexp.MustCompile(`Default ([^\s;:]+?)[.;:](?:\s|$)`)
	checked := 0
	for _, k := range exampleKeys(withEverything(readExample(t))) {
		m := stated.FindStringSubmatch(k.prose)
		v, ok := defaultAt(k.path)
		if m == nil || !ok {
			continue
		}
		want := reflect.New(v.Type()).Elem()
		if err := setScalar(want, "", m[1]); err != nil {
			t.Errorf("line %d: %s: default %q: %v", k.line, k.path, m[1], err)
			continue
		}
		if diff := cmp.Diff(scalarText(want), scalarText(v)); diff != "" {
			t.Errorf("line %d: %s: the example's default is not the code's (-example +code):\n%s", k.line, k.path, diff)
		}
		checked++
	}
	if checked < 50 {
		t.Errorf("only %d defaults compared: the comments or this test lost their form", checked)
	}
}

// defaultAt returns the default of a key with a single value.
func defaultAt(path string) (reflect.Value, bool) {
	var root any = defaults(0)
	if rest, ok := strings.CutPrefix(path, "rules.."); ok {
		r := &Rule{}
		r.setDefaults()
		root, path = r, rest
	}
	if rest, ok := strings.CutPrefix(path, "origins."); ok {
		o := &Origin{}
		o.setDefaults()
		_, rest, _ = strings.Cut(rest, ".")
		root, path = o, rest
	}
	v := reflect.ValueOf(root).Elem()
	for key := range strings.SplitSeq(path, ".") {
		if v.Kind() != reflect.Struct {
			return v, false
		}
		f, ok := fieldNamed(fieldsOf(v.Type()), key)
		if !ok {
			return v, false
		}
		v = v.Field(f.index)
	}
	return v, isScalar(v.Type()) && v.Type() != reflect.TypeFor[Secret]()
}
