package policy

import (
	"net/http"
	"testing"
	"time"
)

// parsedByTime is imfFixdate by time.Parse.
func parsedByTime(s string) (time.Time, bool) {
	t, err := time.Parse(http.TimeFormat, s)
	if err != nil || len(s) != len(http.TimeFormat) || !isDayName(s[:3]) || t.Format(http.TimeFormat)[3:] != s[3:] {
		return time.Time{}, false
	}
	return t.UTC(), true
}

// FuzzIMFFixdate: RFC 9110 §5.6.7, what the quick parser takes is what time.Parse takes and writes back the same.
func FuzzIMFFixdate(f *testing.F) {
	for _, s := range []string{
		"Sun, 06 Nov 1994 08:49:37 GMT", "Mon, 29 Feb 2000 23:59:59 GMT", "Mon, 29 Feb 1900 23:59:59 GMT", "Tue, 31 Apr 2001 00:00:00 GMT",
		"Wed, 00 Jan 2001 00:00:00 GMT", "Thu, 01 Jan 0000 00:00:00 GMT", "Fri, 31 Dec 9999 24:00:00 GMT", "Sat, 31 Dec 9999 23:60:00 GMT",
		"Sat, 31 Dec 2016 23:59:60 GMT", "Sat, +1 Dec 2016 23:59:00 GMT", "Sat, 31 dec 2016 23:59:00 GMT",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := imfFixdate(s)
		want, wanted := parsedByTime(s)
		if ok != wanted || ok && (!got.Equal(want) || got.Location() != time.UTC) {
			t.Errorf("%q: %v, %v; by time.Parse %v, %v", s, got, ok, want, wanted)
		}
	})
}

func BenchmarkHTTPTime(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		HTTPTime("Sun, 06 Nov 1994 08:49:37 GMT")
	}
}
