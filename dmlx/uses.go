package dmlx

// UsedOptions lists the options that have an effect on the rule ([Rule.Uses]), by their names in [Rule.Name] and in its
// order. A rule with a part of the user's own may use any.
func (r Rule) UsedOptions() []string {
	var out []string
	for _, o := range options {
		if r.Uses(o.name) {
			out = append(out, o.name)
		}
	}
	return out
}
