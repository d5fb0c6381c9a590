package policy

// InNotModified tells whether a field of a stored response is part of a 304 made from it, given the stored ETag: the same choice as
// [NotModifiedHeader] makes, for those who do not have the fields in a map. The name must be canonical.
func InNotModified(name, etag string) bool {
	if name == "Last-Modified" {
		tag, ok := parseETag(etag)
		return !ok || tag.weak
	}
	return !describesContent[name]
}
