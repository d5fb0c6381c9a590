package cache

// Locator is implemented by stores that tell which of their tiers hold a record, for the counts of a purge.
type Locator interface {
	// TiersOf names the tiers that hold a record of this key, such as "memory" and "disk"; none if it is gone. The caller must not
	// modify the list. It does not count as a use of the record.
	TiersOf(key string) []string
}
