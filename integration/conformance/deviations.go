package main

import (
	"encoding/json"
	"fmt"
	"os"
)

// deviations are the tests that are knowingly failed, each with its reason.
type deviations map[string]string

func readDeviations(file string) (deviations, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var d deviations
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return d, nil
}
