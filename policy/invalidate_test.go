package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInvalidates(t *testing.T) {
	for name, tt := range map[string]struct {
		method string
		status int
		want   bool
	}{
		"RFC 9111 §4.4 POST":           {"POST", 200, true},
		"RFC 9111 §4.4 PUT":            {"PUT", 204, true},
		"RFC 9111 §4.4 PATCH":          {"PATCH", 201, true},
		"RFC 9111 §4.4 DELETE, 303":    {"DELETE", 303, true},
		"RFC 9111 §4.4 unknown method": {"M-SEARCH", 200, true},
		"RFC 9111 §4.4 client error":   {"POST", 404, false},
		"RFC 9111 §4.4 server error":   {"POST", 500, false},
		"RFC 9110 §9.2.1 GET":          {"GET", 200, false},
		"RFC 9110 §9.2.1 HEAD":         {"HEAD", 200, false},
		"RFC 9110 §9.2.1 OPTIONS":      {"OPTIONS", 200, false},
		"RFC 9110 §9.2.1 TRACE":        {"TRACE", 200, false},
		"RFC 10008 QUERY":              {"QUERY", 200, false},
		"methods are case-sensitive":   {"get", 200, true},
	} {
		if got := Invalidates(tt.method, tt.status); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestInvalidatedTargets(t *testing.T) {
	target := Target{"POST", "http", "a.example:8080", "/x/y", "q=1"}
	for name, tt := range map[string]struct {
		fields []string
		want   []string // paths with query
	}{
		"none":                         {nil, nil},
		"RFC 9111 §4.4 Location":       {[]string{"Location: /z"}, []string{"/z"}},
		"RFC 9111 §4.4 both":           {[]string{"Location: /z?a=b", "Content-Location: w"}, []string{"/z?a=b", "/x/w"}},
		"absolute":                     {[]string{"Location: http://A.example:8080/z"}, []string{"/z"}},
		"normalised":                   {[]string{"Location: ../%7a/./v%2fw"}, []string{"/z/v%2Fw"}},
		"RFC 9111 §4.4 other host":     {[]string{"Location: http://b.example:8080/z"}, nil},
		"RFC 9111 §4.4 other port":     {[]string{"Location: http://a.example/z"}, nil},
		"RFC 9111 §4.4 other scheme":   {[]string{"Location: https://a.example:8080/z"}, nil},
		"network path of another host": {[]string{"Location: //b.example/z"}, nil},
		"no hierarchy":                 {[]string{"Location: mailto:a@a.example"}, nil},
		"user information":             {[]string{"Location: http://u@a.example:8080/z"}, nil},
		"cannot be read":               {[]string{"Location: http://[::1", "Content-Location: /%zz"}, nil},
		"two lines":                    {[]string{"Location: /z", "Location: /w"}, nil},
		"the target itself":            {[]string{"Location: /x/y?q=1"}, nil},
		"the target, other query":      {[]string{"Location: ?q=2"}, []string{"/x/y?q=2"}},
		"fragment":                     {[]string{"Location: /z#top"}, []string{"/z"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, other := range InvalidatedTargets(target, fields(tt.fields...)) {
				if other.Method != "GET" || other.Scheme != target.Scheme || other.Authority != target.Authority {
					t.Errorf("%+v is of another origin", other)
				}
				got = append(got, other.URL().RequestURI())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("targets (-want +got):\n%s", diff)
			}
		})
	}
}

// RFC 9110 §9.3.3: the answer to a POST is for later GETs if it says that it is what the target holds.
func TestAnswersGET(t *testing.T) {
	target := Target{"POST", "http", "a.example", "/x", "q=1"}
	for value, want := range map[string]bool{
		"/x?q=1": true, "http://A.example:80/x?q=1": true, "/%78?q=1": true, "": true,
		"/x": false, "/y?q=1": false, "https://a.example/x?q=1": false,
	} {
		if got := AnswersGET(target, fields("Content-Location: "+value)); got != want {
			t.Errorf("Content-Location %q: %v", value, got)
		}
	}
	if AnswersGET(target, nil) {
		t.Error("an answer without Content-Location is for GET")
	}
}

func TestCacheGroups(t *testing.T) {
	for name, tt := range map[string]struct {
		lines []string
		want  []string
	}{
		"RFC 9875 §2":                        {[]string{`Cache-Groups: "scripts", "a b"`}, []string{"scripts", "a b"}},
		"several lines":                      {[]string{`Cache-Groups: "a"`, `Cache-Groups: "b", "a"`}, []string{"a", "b"}},
		"RFC 9875 §2 parameters are ignored": {[]string{`Cache-Groups: "a";x=1`}, []string{"a"}},
		"members of other types are ignored": {[]string{`Cache-Groups: a, "b", ("c"), 1`}, []string{"b"}},
		"a field that does not parse":        {[]string{`Cache-Groups: "a", &`}, nil},
		"none":                               {nil, nil},
	} {
		if diff := cmp.Diff(tt.want, CacheGroups(fields(tt.lines...), "cache-groups")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTags(t *testing.T) {
	h := fields("Surrogate-Key: a  ab a/1\tü", "Cache-Tag: x y, a , z,", "Cache-Tag: .*")
	want := []string{"a", "ab", "a/1", "ü", "x y", "z", ".*"}
	if diff := cmp.Diff(want, Tags(h, []string{"surrogate-key", "cache-tag", "absent"})); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
}
