package policy

import (
	"regexp"
	"testing"
)

func TestEachReasonHasASection(t *testing.T) {
	form := regexp.MustCompile(`^RFC (9110|9111|5861) §\d+(\.\d+)*$`)
	for _, r := range Reasons() {
		if s := r.Section(); s != SectionOwn && !form.MatchString(s) {
			t.Errorf("%s: section %q", r, s)
		}
	}
	for _, none := range []Reason{0, reasonCount, 255} {
		if s := none.Section(); s != "" {
			t.Errorf("reason %d: section %q", none, s)
		}
	}
}
