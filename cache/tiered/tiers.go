package tiered

import (
	"slices"

	"github.com/swrproxy/swrproxy/cache"
)

// TiersOf says which of "memory" and "disk" hold the record of this key. It does not count as a use.
func (s *Store) TiersOf(key string) []string {
	return slices.Concat(s.mem.TiersOf(key), s.dsk.TiersOf(key))
}

var _ cache.Locator = (*Store)(nil)
