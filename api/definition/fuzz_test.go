package definition

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// FuzzParse is D1, D3, D6 and D7 for any text.
func FuzzParse(f *testing.F) {
	for _, folder := range []string{"testdata/good", "testdata/bad"} {
		files, err := filepath.Glob(folder + "/*")
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			if filepath.Ext(file) != ".golden" {
				for doc := range strings.SplitSeq(string(data), "\n---\n") {
					f.Add(doc)
				}
			}
		}
	}
	opts := withCalendars()
	f.Fuzz(func(t *testing.T, s string) {
		start := time.Now()
		list, err := Parse("f", []byte(s), opts)
		if d := time.Since(start); d > 10*time.Second {
			t.Fatalf("took %s", d)
		}
		if err == nil {
			if len(list) == 0 {
				t.Fatal("neither definitions nor an error")
			}
			for _, d := range list {
				wantRoundTrip(t, d)
			}
			return
		}
		var bad *Error
		if len(list) > 0 || !errors.As(err, &bad) || len(bad.Problems) == 0 {
			t.Fatalf("%d definitions and %v", len(list), err)
		}
		lines := 1 + strings.Count(s, "\n") + strings.Count(s, "\r") + strings.Count(s, "\u0085") + strings.Count(s, "\u2028") + strings.Count(s, "\u2029")
		for _, p := range bad.Problems {
			if p.Reason == "" || strings.ContainsAny(p.Reason, "\r\n") || p.Line > lines || p.Line == 0 && p.Field != "" {
				t.Fatalf("%+v in %d lines", p, lines)
			}
			if strings.Contains(p.Reason, "please report") {
				t.Fatalf("%+v", p)
			}
		}
	})
}
