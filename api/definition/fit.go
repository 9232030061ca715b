package definition

import (
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"time"

	"github.com/ax-scheduler/ax/events"
)

var (
	unmarshalerType = reflect.TypeFor[json.Unmarshaler]()
	rawType         = reflect.TypeFor[json.RawMessage]()
	executorType    = reflect.TypeFor[events.ExecutorSpec]()
	durationType    = reflect.TypeFor[events.Duration]()
	timeType        = reflect.TypeFor[time.Time]()
)

// fit gives what of n can be decoded into a Go type, and reports what cannot. A
// decoder stops at the first fault and names no field; this one goes on, and
// what is left still shows the later steps what is wrong with it. It gives nil if
// nothing is left.
func fit(n *node, t reflect.Type, path string, found *findings) *node {
	switch {
	case t == rawType:
		return n
	case t == executorType:
		if n.kind == object && len(n.fields) == 1 && n.fields[0].value.kind == object {
			return n
		}
		return misfit(n, path, found)
	case t.Kind() == reflect.Pointer:
		return fit(n, t.Elem(), path, found)
	case reflect.PointerTo(t).Implements(unmarshalerType):
		return fitLeaf(n, t, path, found)
	}
	switch t.Kind() {
	case reflect.Struct:
		return fitStruct(n, t, path, found)
	case reflect.Slice:
		return fitSlice(n, t, path, found)
	case reflect.Map:
		if n.kind != object {
			break
		}
		v := &node{kind: object, at: n.at}
		for _, f := range n.fields {
			if w := fit(f.value, t.Elem(), childPath(path, f.name), found); w != nil {
				v.fields = append(v.fields, field{f.name, f.at, w})
			}
		}
		return v
	default:
		return fitLeaf(n, t, path, found)
	}
	return misfit(n, path, found)
}

// misfit reports a value of a wrong type, which the schema has done as a rule.
func misfit(n *node, path string, found *findings) *node {
	return refuse(n, path, "is "+n.describe()+", which does not fit here", found)
}

func refuse(n *node, path, reason string, found *findings) *node {
	if !found.explains(path) {
		found.value(n.at, path, "%s", reason)
	}
	return nil
}

func fitStruct(n *node, t reflect.Type, path string, found *findings) *node {
	if n.kind != object {
		return misfit(n, path, found)
	}
	v := &node{kind: object, at: n.at}
	for i := range t.NumField() {
		name := jsonName(t.Field(i))
		f := n.field(name)
		if name == "" || f == nil {
			continue
		}
		if w := fit(f.value, t.Field(i).Type, childPath(path, name), found); w != nil {
			v.fields = append(v.fields, field{name, f.at, w})
		}
	}
	return v
}

// fitSlice keeps items in their places, since later complaints count them: what
// does not fit is an empty object, and where items are no objects, all go.
func fitSlice(n *node, t reflect.Type, path string, found *findings) *node {
	if n.kind != array {
		return misfit(n, path, found)
	}
	v := &node{kind: array, at: n.at}
	whole := true
	for i, item := range n.items {
		w := fit(item, t.Elem(), itemPath(path, i), found)
		if w == nil {
			w = &node{kind: object, at: item.at}
			whole = whole && t.Elem().Kind() == reflect.Struct
		}
		v.items = append(v.items, w)
	}
	if !whole {
		return nil
	}
	return v
}

// fitLeaf tries a value on the type itself.
func fitLeaf(n *node, t reflect.Type, path string, found *findings) *node {
	if n.kind == null { // which a decoder would pass over
		return misfit(n, path, found)
	}
	v := reflect.New(t)
	if err := json.Unmarshal(n.json(), v.Interface()); err != nil {
		return refuse(n, path, wrongLeaf(n, t), found)
	}
	if t == durationType && v.Elem().Int() == 0 && strings.ContainsAny(n.text, "123456789") {
		return refuse(n, path, "is "+quote(n.text)+", which is less than a nanosecond", found)
	}
	return n
}

// wrongLeaf says why a value is none of a type, where the schema could not.
func wrongLeaf(n *node, t reflect.Type) string {
	switch {
	case t == durationType && n.kind == text:
		if d, err := time.ParseDuration(n.text); err != nil || events.Duration(d) > events.MaxDuration {
			return fmt.Sprintf("is %s, want at most %s", quote(n.text), events.MaxDuration)
		}
	case t == timeType:
		return fmt.Sprintf("is %s, want a time as RFC 3339 has it, such as 2027-01-31T09:00:00+08:00 or 2027-01-31T01:00:00Z", show(n))
	case t.Kind() == reflect.Int64 && n.kind == number:
		if f, ok := new(big.Rat).SetString(n.text); ok && f.IsInt() && f.Num().IsInt64() {
			return fmt.Sprintf("is %s; write %s", n.describe(), f.Num())
		}
	}
	return fmt.Sprintf("is %s, which does not fit here", n.describe())
}

// jsonName gives the name of a Go field in JSON, or "" for one that is not there.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "-" {
		return ""
	}
	return name
}
