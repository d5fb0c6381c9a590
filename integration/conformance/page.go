package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const pageIntro = `# Conformance

<!-- Written by make conformance. Do not edit. -->

Results of the public [HTTP cache tests](https://cache-tests.fyi), edition ` + "`" + edition + "`" + `, run through the proxy by
` + "`make conformance`" + `. *Required* tests are what RFC 9111 demands of every cache, *optimal* ones what a good cache does, *observing* ones
have no right answer. The suite's own code decides what passed.

`

// writePage writes the results as a document.
func writePage(file, extra string, r results, devs deviations) error {
	fragment, err := os.ReadFile(extra)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(pageIntro)
	writeSummary(&b, r)
	writeAreas(&b, r)
	writeDeviations(&b, r, devs)
	fmt.Fprintf(&b, "## Settings\n\nThe proxy runs with its defaults and this fragment, `integration/conformance/extra.yaml`, and nothing else:\n\n"+
		"```yaml\n%s```\n", fragment)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}

func writeSummary(b *strings.Builder, r results) {
	b.WriteString("| kind | passed | of |\n| --- | ---: | ---: |\n")
	for _, kind := range []string{"required", "optimal", "check"} {
		passed, total := r.count("", kind)
		name := kind
		if kind == "check" {
			name = "observing (answer yes)"
		}
		fmt.Fprintf(b, "| %s | %d | %d |\n", name, passed, total)
	}
	fmt.Fprintf(b, "\nSetup failures: %d. Dependency failures: %d. Retries: %d.\n\n", r.of(SetupFailed), r.of(DependencyFailed), r.of(Retried))
}

func writeAreas(b *strings.Builder, r results) {
	b.WriteString("## By area\n\n| area | required | optimal | observing: yes |\n| --- | ---: | ---: | ---: |\n")
	uncounted := false
	for _, area := range r.areas() {
		mark := ""
		if !r.counted(area) {
			mark, uncounted = " ¹", true
		}
		fmt.Fprintf(b, "| %s%s | %s | %s | %s |\n", area, mark, r.cell(area, "required"), r.cell(area, "optimal"), r.cell(area, "check"))
	}
	if uncounted {
		b.WriteString("\n¹ Run, but not counted by the suite and not in the sums above.\n")
	}
	b.WriteString("\n")
}

func (r results) areas() []string {
	var out []string
	for _, t := range r.tests {
		if !slices.Contains(out, t.Area) {
			out = append(out, t.Area)
		}
	}
	return out
}

func (r results) counted(area string) bool {
	return slices.ContainsFunc(r.tests, func(t result) bool { return t.Area == area && t.Counted })
}

func (r results) cell(area, kind string) string {
	passed, total := r.count(area, kind)
	if total == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", passed, total)
}

func writeDeviations(b *strings.Builder, r results, devs deviations) {
	b.WriteString("## Deviations\n\n")
	open := r.ids(func(t result) bool { return t.Kind != "check" && !t.passed() })
	if len(open) == 0 {
		b.WriteString("None: every required and every optimal test passes.\n\n")
		return
	}
	b.WriteString("| test | kind | verdict | what it asks | reason |\n| --- | --- | --- | --- | --- |\n")
	for _, t := range r.tests {
		if !slices.Contains(open, t.ID) {
			continue
		}
		why := devs[t.ID]
		if why == "" {
			why = "not done yet"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", t.ID, t.Kind, t.verdict(), strings.ReplaceAll(t.Name, "|", "\\|"), why)
	}
	b.WriteString("\n")
}
