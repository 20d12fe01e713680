package paper

import "cmp"

// Published is the column for a loss as it is published. The other columns are exchanges for
// [objectives.Objective.WithExchange]: one part of each kind, the paper's choices.
const Published = "as published"

// WithExchanges returns a loss's cell as published, followed by one cell for each exchange of a part, such as
// "pair=lin-ms".
func WithExchanges(c Cell, exchanges ...string) []Cell {
	c.Column, c.Method = Published, cmp.Or(c.Row, c.Label, c.String())
	out := []Cell{c}
	for _, x := range exchanges {
		o, err := out[0].WithExchange(x)
		if err != nil { // [Specify] says so.
			o.Exchange = x
		}
		c.Column, c.Objective.Objective = x, o
		out = append(out, c)
	}
	return out
}
