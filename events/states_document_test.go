package events

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestStatesDocument holds docs/states.md against the table.
func TestStatesDocument(t *testing.T) {
	generated(t, root+"/docs/states.md", statesDocument(t))
}

// guardText says each guard in words.
var guardText = [...]string{
	Always:          "",
	SameAttempt:     "same attempt",
	SameOffer:       "same attempt and offer",
	NextOffer:       "same attempt, next offer, not held",
	NextAttempt:     "next attempt",
	SameAttemptFree: "same attempt, not held",
	NextAttemptFree: "next attempt, not held",
	Free:            "not held",
	Held:            "held",
	HeldAttempt:     "held by that attempt",
}

func TestEveryGuardIsExplained(t *testing.T) {
	if len(guardText) != int(HeldAttempt)+1 {
		t.Fatalf("%d guards have words, the last guard is %d", len(guardText), HeldAttempt)
	}
	for g, text := range guardText {
		if (text == "") != (Guard(g) == Always) {
			t.Errorf("guard %d is explained as %q", g, text)
		}
	}
}

func statesDocument(t *testing.T) string {
	var b strings.Builder
	w := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	edges := moves()

	w("# States of an instance\n\n")
	w("<!-- Generated from events/table.go. Do not edit; refresh with: %s -->\n\n", refresh(t))
	w("An instance is one due execution of a task. Its state follows from the events in the\n")
	w("log, by one table: state × kind of event. Every cell of the table is filled. An event that\n")
	w("meets a state in which it means nothing changes nothing, and the table says why.\n\n")

	w("## Diagram\n\n")
	w("One arrow for each pair of states, with the kinds of event that lead along it. Not drawn:\n")
	w("`dead` from CREATED, SCHEDULED, DISPATCHED and RUNNING, which parks an instance that AX\n")
	w("cannot decide about; and `restated`, which repeats a state and leads nowhere.\n\n")
	w("```mermaid\nstateDiagram-v2\n")
	for _, from := range allStates() {
		for _, to := range allStates() {
			kinds := edges[from][to]
			if to == StateDead && from < StateFailed { // drawn, these hide everything else
				kinds = nil
			}
			if len(kinds) == 0 {
				continue
			}
			name := from.String()
			if from == StateNone {
				name = "[*]"
			}
			w("    %s --> %s: %s\n", name, to, joinKinds(kinds, ", "))
		}
	}
	for _, s := range allStates() {
		if s.Final() {
			w("    %s --> [*]\n", s)
		}
	}
	w("```\n\n")

	w("## States\n\n")
	docs := map[string]string{}
	for _, c := range constants(t, "state.go", "StateNone") {
		docs[c.name] = c.comment
	}
	w("| state | means | leaves by |\n| --- | --- | --- |\n")
	for _, s := range allStates() {
		doc := docs[goName(s)]
		if doc == "" {
			t.Errorf("%s has no comment in state.go", s)
		}
		var exits []string
		for _, k := range instanceKinds() {
			switch c := Lookup(s, k); {
			case c.Verdict != Moves:
			case c.To == StateNone:
				exits = append(exits, "`"+k.String()+"` to the state that its body says")
			default:
				exits = append(exits, "`"+k.String()+"` to "+c.To.String())
			}
		}
		if len(exits) == 0 {
			exits = []string{"–"}
		}
		w("| %s | %s | %s |\n", s, doc, strings.Join(exits, ", "))
	}
	for _, s := range allStates() {
		if why := notReachedYet[s]; why != "" {
			w("\nNo event of this version leads to %s: %s.\n", s, why)
		}
	}

	w("\n## Table\n\n")
	w("A row for each kind that acts on instances, a column for each state; the final states\n")
	w("share one, since they are alike.\n\n")
	w("- `→ STATE`: the instance goes there.\n")
	w("- `stays`: the event has an effect (it is noted, a hold begins or ends, a cancel is remembered), but\n  the state is the same.\n")
	w("- a number: nothing changes, for the reason of that number below.\n\n")
	w("What stands in brackets is a condition besides the state. Where it does not hold, nothing\n")
	w("changes either: the event is of an attempt or offer that is over, or a worker still holds\n")
	w("the instance. *Held* means that an attempt passed its time limit and its worker has not let\n")
	w("go of it yet; *same* and *next* compare the event's attempt and offer with the instance's.\n\n")
	columns := allStates()[:StateSuccess+1]
	w("| kind |")
	for _, s := range columns {
		if s == StateSuccess {
			w(" final |")
		} else {
			w(" %s |", s)
		}
	}
	w("\n| --- |%s\n", strings.Repeat(" --- |", len(columns)))
	var whys []string
	for _, k := range instanceKinds() {
		w("| `%s` |", k)
		for _, s := range columns {
			cell := Lookup(s, k)
			for _, other := range allStates() {
				if s.Final() && other.Final() && Lookup(other, k) != cell {
					t.Errorf("%s and %s differ in %s: give each its column", s, other, k)
				}
			}
			w(" %s |", cellText(cell, &whys))
		}
		w("\n")
	}
	w("\nWhy nothing changes:\n\n")
	for i, why := range whys {
		w("%d. %s\n", i+1, why)
	}
	w("\nWhat `restated` is about stands in its body. A `skipped` without an instance is about due\n")
	w("times of a trigger and does not meet this table.\n")
	return b.String()
}

func cellText(c Cell, whys *[]string) string {
	text := ""
	switch c.Verdict {
	case Moves:
		text = "→ " + c.To.String()
		if c.To == StateNone {
			text = "→ as its body says"
		}
	case Stays:
		text = "stays"
	case Passed:
		i := slices.Index(*whys, c.Why)
		if i < 0 {
			i = len(*whys)
			*whys = append(*whys, c.Why)
		}
		return fmt.Sprint(i + 1)
	}
	if c.Guard != Always {
		text += " (" + guardText[c.Guard] + ")"
	}
	return text
}

func joinKinds(kinds []Kind, sep string) string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.String()
	}
	return strings.Join(names, sep)
}

// goName is the name of a state's constant: StateNone for NONE.
func goName(s State) string {
	n := s.String()
	return "State" + n[:1] + strings.ToLower(n[1:])
}
