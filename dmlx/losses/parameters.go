package losses

// Setting is a parameter of a loss with its value: a number, or a switch.
type Setting struct {
	Name   string  // As [Parse] reads it.
	Value  float64 // Of a number.
	Switch bool
	On     bool   // Of a switch.
	Want   string // What a number must be; "" for any finite one.
}

// Parameters lists the parameters of a loss with their values, in the order of its name.
func (n *Named) Parameters() []Setting {
	var out []Setting
	for _, p := range n.params() {
		k := Setting{Name: p.name, Want: p.want}
		if p.on != nil {
			k.Switch, k.On = true, *p.on
		} else {
			k.Value = *p.at
		}
		out = append(out, k)
	}
	return out
}
