package config

// nearest returns the word that text was probably meant to be, "" if none is near: at most one edit in three characters.
func nearest(text string, words []string) string {
	best, found := len(text)/3+1, ""
	for _, w := range words {
		if d := edits(text, w); d < best || d == best && found == "" {
			best, found = d, w
		}
	}
	return found
}

// edits is the number of insertions, deletions, replacements and swaps of neighbours between two words.
func edits(a, b string) int {
	const tooLong = 64
	if len(a) > tooLong || len(b) > tooLong {
		return tooLong
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+differs(a[i-1], b[j-1]))
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

func differs(a, b byte) int {
	if a == b {
		return 0
	}
	return 1
}
