package definition

import (
	"reflect"
	"testing"

	"github.com/ax-scheduler/ax/events"
)

// wantRoundTrip is D6, and that the leader, which reads the encoded form, sees
// the same.
func wantRoundTrip(t *testing.T, d events.Definition) {
	t.Helper()
	body := encoded(t, &d)
	again, err := Parse("again.json", []byte(body), Options{})
	if err != nil {
		t.Fatalf("encoded form is refused: %v\n%s", err, body)
	}
	if len(again) != 1 || !reflect.DeepEqual(again[0], d) {
		t.Fatalf("encoded form is read as another definition\nfrom %#v\n  to %#v", d, again)
	}
	led, err := events.DecodeDefinition(body)
	if err == nil {
		err = led.Complete()
	}
	if err != nil {
		t.Fatalf("the leader refuses it: %v\n%s", err, body)
	}
	if b := encoded(t, led); b != body {
		t.Fatalf("the leader reads another definition\nfrom %s\n  to %s", body, b)
	}
}
