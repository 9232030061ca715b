package definition

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// structure turns the syntax tree of a YAML document into nodes. An error means
// that a bound was passed, or that the document would have no end; it says where
// in the last step that was taken.
type structure struct {
	found  *findings
	budget *budget
	line   int                 // lines of the file before the document
	open   map[*yaml.Node]bool // anchors whose values are being read
	last   place
}

func placeOf(n *yaml.Node) place { return place{n.Line, n.Column} }

func (s *structure) place(n *yaml.Node) place { return place{n.Line + s.line, n.Column} }

func (s *structure) value(n *yaml.Node, at *steps) (*node, error) {
	s.last = s.place(n)
	if err := s.budget.spend(len(n.Value)); err != nil {
		return nil, err
	}
	if at != nil && at.depth > MaxDepth {
		return nil, fmt.Errorf("lists and objects are nested more than %d deep", MaxDepth)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return s.alias(n, at)
	case yaml.MappingNode:
		s.refuseTag(n, "!!map", at)
		return s.mapping(n, at)
	case yaml.SequenceNode:
		s.refuseTag(n, "!!seq", at)
		v := &node{kind: array, at: s.place(n)}
		for i, item := range n.Content {
			w, err := s.value(item, at.down("", i))
			if err != nil {
				return nil, err
			}
			v.items = append(v.items, w)
		}
		return v, nil
	}
	v, reason := scalar(n)
	v.at = s.place(n)
	if reason != "" {
		s.found.value(v.at, at.path(), "%s", reason)
		v.kind, v.text = null, ""
	}
	return v, nil
}

func (s *structure) refuseTag(n *yaml.Node, own string, at *steps) {
	if n.Style&yaml.TaggedStyle != 0 && n.ShortTag() != own {
		s.found.add(s.place(n), at.path(), "has the tag %s; write the value without it", quote(n.Tag))
	}
}

// alias reads the value that an alias stands for. A complaint about the value as
// a whole is about the alias, one about a part of it about that part.
func (s *structure) alias(n *yaml.Node, at *steps) (*node, error) {
	if s.open[n.Alias] {
		return nil, fmt.Errorf("alias *%s stands inside its own anchor; it would have no end", cut(n.Value, 60))
	}
	s.open[n.Alias] = true
	v, err := s.value(n.Alias, at)
	delete(s.open, n.Alias)
	if err == nil {
		v.at = s.place(n)
	}
	return v, err
}

func (s *structure) mapping(n *yaml.Node, at *steps) (*node, error) {
	v := &node{kind: object, at: s.place(n)}
	first := map[string]place{} // where each field stands
	var merged []*node
	mergedAt := place{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, keyAt := n.Content[i], s.place(n.Content[i])
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge" {
			if mergedAt != (place{}) {
				s.found.note(keyAt, at.path(), "<< appears twice, first in line %d; write <<: [*a, *b]", mergedAt.line)
			}
			mergedAt = keyAt
			list, err := s.merges(n.Content[i+1], at)
			if err != nil {
				return nil, err
			}
			merged = append(merged, list...)
			continue
		}
		name := s.key(key, keyAt, at)
		if err := s.budget.spend(len(name)); err != nil {
			return nil, err
		}
		w, err := s.value(n.Content[i+1], at.down(name, -1))
		if err != nil {
			return nil, err
		}
		if was, again := first[name]; again {
			s.found.note(keyAt, childPath(at.path(), name), "appears twice, first in line %d; keep one of them", was.line)
			continue
		}
		first[name] = keyAt
		v.fields = append(v.fields, field{name, keyAt, w})
	}
	for _, m := range merged {
		for _, f := range m.fields {
			if _, own := first[f.name]; !own {
				first[f.name] = f.at
				v.fields = append(v.fields, f)
			}
		}
	}
	return v, nil
}

// key gives the name of a field. A key that is no text is reported and goes by
// what stands there.
func (s *structure) key(n *yaml.Node, keyAt place, at *steps) string {
	if n.Kind != yaml.ScalarNode {
		s.found.note(keyAt, at.path(), "a list or an object is the key of a field; keys are texts")
		return ""
	}
	if n.Style&yaml.TaggedStyle != 0 && n.ShortTag() != "!!str" {
		s.found.note(keyAt, childPath(at.path(), n.Value), "the key has the tag %s; write it without", quote(n.Tag))
		return n.Value
	}
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
	case "!!null":
		if n.Value == "" {
			s.found.note(keyAt, at.path(), "a field has no key; write one before the colon")
			break
		}
		fallthrough
	default:
		s.found.note(keyAt, childPath(at.path(), n.Value), "the key is no text; put it into quotes: %s", quote(n.Value))
	}
	return n.Value
}

// merges gives the objects that a merge key names: one, or a list of them.
func (s *structure) merges(n *yaml.Node, at *steps) ([]*node, error) {
	v, err := s.value(n, at)
	if err != nil {
		return nil, err
	}
	list := []*node{v}
	if v.kind == array {
		list = v.items
	}
	objects := list[:0:0]
	for _, m := range list {
		if m.kind == object {
			objects = append(objects, m)
			continue
		}
		s.found.note(m.at, at.path(), "<< names what is no object; want <<: *anchor or <<: [*a, *b]")
	}
	return objects, nil
}
