package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPart(t *testing.T) {
	for name, tt := range map[string]struct {
		lenient bool
		fields  []string
		n       int64
		want    Partial
		ok      bool
	}{
		"RFC 9110 §15.3.7 fits":            {false, []string{"Content-Range: bytes 0-4/10"}, 5, Partial{0, 4, 10}, true},
		"RFC 9110 §15.3.7 size unknown":    {false, []string{"Content-Range: bytes 0-4/*"}, 5, Partial{0, 4, -1}, true},
		"RFC 9110 §15.3.7 several parts":   {false, []string{"Content-Type: multipart/byteranges"}, 5, Partial{}, false},
		"two fields":                       {false, []string{"Content-Range: bytes 0-4/10", "Content-Range: bytes 0-4/10"}, 5, Partial{}, false},
		"shorter than claimed":             {false, []string{"Content-Range: bytes 4-9/10"}, 5, Partial{}, false},
		"longer than claimed":              {true, []string{"Content-Range: bytes 4-9/10"}, 7, Partial{}, false},
		"empty":                            {true, []string{"Content-Range: bytes 4-9/10"}, 0, Partial{}, false},
		"lenient: shorter, claims the end": {true, []string{"Content-Range: bytes 4-9/10"}, 5, Partial{4, 8, 9}, true},
		"lenient: shorter, in the middle":  {true, []string{"Content-Range: bytes 4-9/20"}, 5, Partial{4, 8, 20}, true},
		"lenient: fits":                    {true, []string{"Content-Range: bytes 4-9/10"}, 6, Partial{4, 9, 10}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := (&Settings{LenientPartial: tt.lenient}).Part(fields(tt.fields...), tt.n)
			if got != tt.want || ok != tt.ok {
				t.Errorf("Part = %+v, %v; want %+v, %v", got, ok, tt.want, tt.ok)
			}
		})
	}
}

// RFC 9111 §3.3: a partial response answers only what lies inside it.
func TestSelectPart(t *testing.T) {
	middle, end, unknown := Partial{20, 29, 100}, Partial{90, 99, 100}, Partial{20, 29, -1}
	for name, tt := range map[string]struct {
		p     Partial
		value string
		want  []ByteRange
	}{
		"the same":                        {middle, "bytes=20-29", []ByteRange{{20, 10}}},
		"inside":                          {middle, "bytes=22-24", []ByteRange{{22, 3}}},
		"starts before":                   {middle, "bytes=19-24", nil},
		"ends behind":                     {middle, "bytes=22-30", nil},
		"open":                            {middle, "bytes=22-", nil},
		"suffix":                          {middle, "bytes=-5", nil},
		"open, to the end":                {end, "bytes=95-", []ByteRange{{95, 5}}},
		"suffix, to the end":              {end, "bytes=-1", []ByteRange{{99, 1}}},
		"suffix, exactly":                 {end, "bytes=-10", []ByteRange{{90, 10}}},
		"suffix, too long":                {end, "bytes=-11", nil},
		"unsatisfiable is for the origin": {end, "bytes=100-", nil},
		"unknown size, inside":            {unknown, "bytes=22-24", []ByteRange{{22, 3}}},
		"unknown size, ends behind":       {unknown, "bytes=22-30", nil},
		"unknown size, open":              {unknown, "bytes=22-", nil},
		"unknown size, suffix":            {unknown, "bytes=-5", nil},
		"unknown size, two ranges":        {unknown, "bytes=22-23,25-99", nil},
		"no range":                        {middle, "", nil},
		"malformed":                       {middle, "bytes=x", nil},
	} {
		t.Run(name, func(t *testing.T) {
			req := fields("Range: " + tt.value)
			if tt.value == "" {
				req = nil
			}
			got, ok := SelectPart(req, nil, tt.p)
			if diff := cmp.Diff(tt.want, got); diff != "" || ok != (tt.want != nil) {
				t.Errorf("ok = %v, parts (-want +got):\n%s", ok, diff)
			}
		})
	}
}

// RFC 9111 §3.4
func TestMissing(t *testing.T) {
	strong, weak := fields(`ETag: "a"`), fields(`ETag: W/"a"`)
	for name, tt := range map[string]struct {
		p          Partial
		rangeField string
	}{
		"the beginning is there":               {Partial{0, 4, 10}, "bytes=5-"},
		"the beginning is there, size unknown": {Partial{0, 4, -1}, "bytes=5-"},
		"the end is there":                     {Partial{5, 9, 10}, "bytes=0-4"},
		"the middle is there":                  {Partial{3, 6, 10}, ""},
		"something, size unknown":              {Partial{3, 6, -1}, ""},
		"all is there":                         {Partial{0, 9, 10}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, ifRange, ok := (&Settings{}).Missing(strong, tt.p)
			if got != tt.rangeField || ok != (tt.rangeField != "") || ok && ifRange != `"a"` {
				t.Errorf("Missing = %q, %q, %v; want %q", got, ifRange, ok, tt.rangeField)
			}
			if got, _, ok := (&Settings{}).Missing(weak, tt.p); ok {
				t.Errorf("a weak validator asks for %q", got)
			}
			if got, ifRange, ok := (&Settings{CompleteUnvalidated: true}).Missing(weak, tt.p); got != tt.rangeField || ok != (tt.rangeField != "") || ifRange != "" {
				t.Errorf("unvalidated: %q, %q, %v; want %q", got, ifRange, ok, tt.rangeField)
			}
		})
	}
}

func TestCombines(t *testing.T) {
	a, b, w := fields(`ETag: "a"`), fields(`ETag: "b"`), fields(`ETag: W/"a"`)
	for name, tt := range map[string]struct {
		got, want bool
	}{
		"RFC 9111 §3.4 touching":          {Combines(a, a, Partial{0, 4, 10}, Partial{5, 9, 10}), true},
		"RFC 9111 §3.4 touching in front": {Combines(a, a, Partial{5, 9, 10}, Partial{0, 4, -1}), true},
		"RFC 9111 §3.4 overlapping":       {Combines(a, a, Partial{0, 6, 10}, Partial{5, 9, 10}), true},
		"RFC 9111 §3.4 a gap":             {Combines(a, a, Partial{0, 4, 10}, Partial{6, 9, 10}), false},
		"RFC 9111 §3.4 other size":        {Combines(a, a, Partial{0, 4, 10}, Partial{5, 9, 11}), false},
		"RFC 9111 §3.4 other validator":   {Combines(a, b, Partial{0, 4, 10}, Partial{5, 9, 10}), false},
		"RFC 9111 §3.4 weak validator":    {Combines(w, w, Partial{0, 4, 10}, Partial{5, 9, 10}), false},
		"RFC 9111 §3.4 no validator":      {Combines(nil, nil, Partial{0, 4, 10}, Partial{5, 9, 10}), false},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %v", name, tt.got)
		}
	}
}
