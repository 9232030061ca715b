package definition

import (
	"strings"
	"testing"
)

// TestATextThatBeginsLikeYAMLHasToBeInQuotes: the reader's own message for such a
// text says nothing to people; each of these names the line, and what to write.
func TestATextThatBeginsLikeYAMLHasToBeInQuotes(t *testing.T) {
	for _, c := range []struct{ line, write string }{
		{"cron: * * * * *", `"* * * * *"`},
		{"cron: */5 * * * * # every five minutes", `"*/5 * * * *"`},
		{"cron: *", `"*"`},
		{"- * * * * *", `"* * * * *"`},
		{"- {name: a, cron: * * * * *}", `"* * * * *"`},
		{"- {cron: */5 * * * *, name: a}", `"*/5 * * * *"`},
		{"- [a, @daily]", `"@daily"`},
		{"cron: @daily", `"@daily"`},
		{"command: `date`", "\"`date`\""},
		{"command: %d", `"%d"`},
		{"command: & sleep", `"& sleep"`},
		{"command: !! again", `"!! again"`},
		{"command: |grep x", `"|grep x"`},
		{"command: >file", `">file"`},
		{`command: * "it's"`, `'* "it''s"'`},
	} {
		_, err := Parse("f", []byte("apiVersion: ax/v1\nspec:\n  x:\n    "+c.line+"\n"), Options{})
		if err == nil {
			t.Errorf("%s is taken", c.line)
			continue
		}
		for _, want := range []string{"f:4: a text that begins with ", "has to be in quotes; write " + c.write} {
			if !strings.Contains(err.Error()+"\n", want) {
				t.Errorf("%s: does not say %q: %v", c.line, want, err)
			}
		}
	}
}
