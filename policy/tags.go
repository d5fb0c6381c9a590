package policy

import (
	"net/http"
	"slices"
	"strings"

	"github.com/dunglas/httpsfv"
)

// CacheGroups returns the groups that Cache-Groups or Cache-Group-Invalidation names: a List of Strings in which
// members of other types are ignored, and a field that does not parse is ignored as a whole (RFC 9875 §2, §3). Groups
// belong to one origin; the caller keeps them apart by scheme and authority. At most 128 groups of at most 128
// characters are taken.
func CacheGroups(h http.Header, name string) []string {
	lines := h[http.CanonicalHeaderKey(name)]
	if len(lines) == 0 {
		return nil
	}
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		return nil
	}
	var groups []string
	for _, m := range list {
		item, _ := m.(httpsfv.Item)
		if g, ok := item.Value.(string); ok && len(g) <= maxGroup && len(groups) < maxGroups && !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	return groups
}

// maxGroups and maxGroup are more than the 32 groups of 32 characters that RFC 9875 §2 asks for at least; a bound keeps
// one response from filling an index.
const maxGroups, maxGroup = 128, 128

// Tags returns the surrogate keys of a response from the given fields, without repetition. Surrogate-Key, and names
// ending in "-Keys" or "-Key", are separated by white space; Cache-Tag and others by commas.
func Tags(h http.Header, names []string) []string {
	var tags []string
	for _, name := range names {
		name = http.CanonicalHeaderKey(name)
		sep := isComma
		if strings.HasSuffix(name, "-Key") || strings.HasSuffix(name, "-Keys") {
			sep = isSpace
		}
		for _, line := range h[name] {
			for _, tag := range strings.FieldsFunc(line, sep) {
				if tag = trimOWS(tag); tag != "" && !slices.Contains(tags, tag) {
					tags = append(tags, tag)
				}
			}
		}
	}
	return tags
}

func isComma(r rune) bool { return r == ',' }

func isSpace(r rune) bool { return r == ' ' || r == '\t' }
