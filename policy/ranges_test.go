package policy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSelectRange(t *testing.T) {
	whole := []string{`ETag: "a"`, "Last-Modified: " + date(-60*sec), "Date: " + date(0)}
	for name, tt := range map[string]struct {
		request, stored []string
		size            int64
		want            []ByteRange
		result          RangeResult
	}{
		"none":                                     {nil, whole, 10, nil, RangeNone},
		"RFC 9110 §14.1.2 first byte":              {[]string{"Range: bytes=0-0"}, whole, 10, []ByteRange{{0, 1}}, RangeOK},
		"RFC 9110 §14.1.2 last byte":               {[]string{"Range: bytes=-1"}, whole, 10, []ByteRange{{9, 1}}, RangeOK},
		"RFC 9110 §14.1.2 open":                    {[]string{"Range: bytes=9-"}, whole, 10, []ByteRange{{9, 1}}, RangeOK},
		"RFC 9110 §14.1.2 beyond the end":          {[]string{"Range: bytes=5-100"}, whole, 10, []ByteRange{{5, 5}}, RangeOK},
		"RFC 9110 §14.1.2 suffix beyond the start": {[]string{"Range: bytes=-100"}, whole, 10, []ByteRange{{0, 10}}, RangeOK},
		"RFC 9110 §15.5.17 behind the end":         {[]string{"Range: bytes=10-"}, whole, 10, nil, RangeUnsatisfiable},
		"RFC 9110 §15.5.17 suffix of 0":            {[]string{"Range: bytes=-0"}, whole, 10, nil, RangeUnsatisfiable},
		"RFC 9110 §15.5.17 of nothing":             {[]string{"Range: bytes=0-"}, whole, 0, nil, RangeUnsatisfiable},
		"RFC 9110 §15.5.17 suffix of nothing":      {[]string{"Range: bytes=-5"}, whole, 0, nil, RangeUnsatisfiable},
		"RFC 9110 §14.2 some satisfiable":          {[]string{"Range: bytes=10-, 0-0"}, whole, 10, []ByteRange{{0, 1}}, RangeOK},
		"RFC 9110 §14.1.1 last before first":       {[]string{"Range: bytes=9-0"}, whole, 10, nil, RangeNone},
		"RFC 9110 §14.2 unknown unit":              {[]string{"Range: chars=0-1"}, whole, 10, nil, RangeNone},
		"RFC 9110 §14.1 unit in any case":          {[]string{"Range: Bytes=0-1"}, whole, 10, []ByteRange{{0, 2}}, RangeOK},
		"no unit":                                  {[]string{"Range: 0-1"}, whole, 10, nil, RangeNone},
		"no set":                                   {[]string{"Range: bytes="}, whole, 10, nil, RangeNone},
		"neither position":                         {[]string{"Range: bytes=-"}, whole, 10, nil, RangeNone},
		"letters":                                  {[]string{"Range: bytes=a-b"}, whole, 10, nil, RangeNone},
		"sign":                                     {[]string{"Range: bytes=+0-1"}, whole, 10, nil, RangeNone},
		"space inside":                             {[]string{"Range: bytes=0 - 1"}, whole, 10, nil, RangeNone},
		"one malformed spoils all":                 {[]string{"Range: bytes=0-1, x"}, whole, 10, nil, RangeNone},
		"empty members":                            {[]string{"Range: bytes=, 0-1,,"}, whole, 10, []ByteRange{{0, 2}}, RangeOK},
		"two lines":                                {[]string{"Range: bytes=0-1", "Range: bytes=3-4"}, whole, 10, nil, RangeNone},
		"positions beyond 64 bits":                 {[]string{"Range: bytes=0-99999999999999999999"}, whole, 10, []ByteRange{{0, 10}}, RangeOK},
		"start beyond 64 bits":                     {[]string{"Range: bytes=99999999999999999999-"}, whole, 10, nil, RangeUnsatisfiable},
		"length unknown":                           {[]string{"Range: bytes=0-1"}, whole, -1, nil, RangeNone},

		"RFC 9110 §15.3.7.2 parts near each other are joined": {[]string{"Range: bytes=0-1,8-9"}, whole, 10, []ByteRange{{0, 10}}, RangeOK},
		"RFC 9110 §15.3.7.2 parts far from each other":        {[]string{"Range: bytes=0-1,900-901"}, whole, 1000, []ByteRange{{0, 2}, {900, 2}}, RangeOK},
		"RFC 9110 §15.3.7.2 order of the request":             {[]string{"Range: bytes=900-901,0-1"}, whole, 1000, []ByteRange{{900, 2}, {0, 2}}, RangeOK},
		"RFC 9110 §14.2 few overlaps are joined":              {[]string{"Range: bytes=0-9,5-20,500-501"}, whole, 1000, []ByteRange{{0, 21}, {500, 2}}, RangeOK},
		"RFC 9110 §14.2 many overlaps":                        {[]string{"Range: bytes=0-,0-,0-,0-"}, whole, 1000, nil, RangeNone},
		"RFC 9110 §17.15 many small parts":                    {[]string{"Range: bytes=" + strings.Repeat("0-0,", MaxRanges) + "1-1"}, whole, 1000, nil, RangeNone},

		"RFC 9110 §13.1.5 strong ETag":                      {[]string{"Range: bytes=0-1", `If-Range: "a"`}, whole, 10, []ByteRange{{0, 2}}, RangeOK},
		"RFC 9110 §13.1.5 other ETag":                       {[]string{"Range: bytes=0-1", `If-Range: "b"`}, whole, 10, nil, RangeNone},
		"RFC 9110 §13.1.5 weak ETag":                        {[]string{"Range: bytes=0-1", `If-Range: W/"a"`}, []string{`ETag: W/"a"`}, 10, nil, RangeNone},
		"RFC 9110 §13.1.5 weak in the request":              {[]string{"Range: bytes=0-1", `If-Range: W/"a"`}, whole, 10, nil, RangeNone},
		"RFC 9110 §13.1.5 strong against weak":              {[]string{"Range: bytes=0-1", `If-Range: "a"`}, []string{`ETag: W/"a"`}, 10, nil, RangeNone},
		"RFC 9110 §13.1.5 date":                             {[]string{"Range: bytes=0-1", "If-Range: " + date(-60*sec)}, whole, 10, []ByteRange{{0, 2}}, RangeOK},
		"RFC 9110 §13.1.5 later date":                       {[]string{"Range: bytes=0-1", "If-Range: " + date(-59*sec)}, whole, 10, nil, RangeNone},
		"RFC 9110 §8.8.2.2 date of the very second is weak": {[]string{"Range: bytes=0-1", "If-Range: " + date(0)}, []string{"Last-Modified: " + date(0), "Date: " + date(0)}, 10, nil, RangeNone},
		"RFC 9110 §8.8.2.2 date without Date is weak":       {[]string{"Range: bytes=0-1", "If-Range: " + date(-60*sec)}, []string{"Last-Modified: " + date(-60*sec)}, 10, nil, RangeNone},
		"If-Range that cannot be read":                      {[]string{"Range: bytes=0-1", "If-Range: a"}, whole, 10, nil, RangeNone},
		"RFC 9110 §13.1.5 unsatisfiable, condition fails":   {[]string{"Range: bytes=10-", `If-Range: "b"`}, whole, 10, nil, RangeNone},
	} {
		t.Run(name, func(t *testing.T) {
			got, result := SelectRange(fields(tt.request...), fields(tt.stored...), tt.size)
			if diff := cmp.Diff(tt.want, got); diff != "" || result != tt.result {
				t.Errorf("%v, want %v; parts (-want +got):\n%s", result, tt.result, diff)
			}
		})
	}
}

func TestContentRange(t *testing.T) {
	for want, got := range map[string]string{
		"bytes 0-4/10":   ContentRange(ByteRange{0, 5}, 10),
		"bytes 5-9/*":    ContentRange(ByteRange{5, 5}, -1),
		"bytes */10":     ContentRange(ByteRange{}, 10),
		"bytes 42-42/43": ContentRange(ByteRange{42, 1}, 43),
	} {
		if got != want {
			t.Errorf("RFC 9110 §14.4: %q, want %q", got, want)
		}
	}
}

func TestParseContentRange(t *testing.T) {
	for v, want := range map[string]Partial{
		"bytes 0-4/10": {0, 4, 10}, "bytes 5-9/*": {5, 9, -1}, "BYTES 0-0/1": {0, 0, 1},
	} {
		if got, ok := ParseContentRange(v); !ok || got != want {
			t.Errorf("%q: %+v, %v; want %+v", v, got, ok, want)
		}
	}
	for _, v := range []string{
		"", "bytes */10", "bytes 0-10/10", "bytes 4-0/10", "bytes 0-4", "bytes 0-4/", "bytes=0-4/10", "chars 0-4/10", "bytes -4/10",
		"bytes 0-/10", "bytes 0 - 4/10", "bytes 0-4/x", "bytes 0-4/10/10", "bytes 0-4/10, bytes 5-6/10",
	} {
		if got, ok := ParseContentRange(v); ok {
			t.Errorf("%q was read as %+v", v, got)
		}
	}
}
