package proc

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Output is kept line by line, however long a line is and however the output ends.
func TestLines(t *testing.T) {
	long, longer := strings.Repeat("a", 10_000), strings.Repeat("b", maxLine+10_000)
	for name, c := range map[string]struct {
		output string
		want   []string
	}{
		"nothing":            {"", nil},
		"two":                {"a\nb\n", []string{"a", "b"}},
		"empty":              {"a\n\nb\n", []string{"a", "", "b"}},
		"without an end":     {"a\nb", []string{"a", "b"}},
		"long":               {long + "\nb\n", []string{long, "b"}},
		"long, without one":  {"a\n" + long, []string{"a", long}},
		"too long":           {longer + "\nb\n", []string{longer[:maxLine], "b"}},
		"too long, no end":   {longer, []string{longer[:maxLine]}},
		"as long as is kept": {longer[:maxLine] + "\nb\n", []string{longer[:maxLine], "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			var l Lines
			<-l.follow(strings.NewReader(c.output))
			if diff := cmp.Diff(c.want, l.All()); diff != "" {
				t.Errorf("(-want +got):\n%.400s", diff)
			}
		})
	}
}
