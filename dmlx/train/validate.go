package train

import "github.com/gradient-surgery/dml/dmlx/internal/errs"

// Validate reports what is wrong with a config without opening any images. [Config.Fits] checks it against a data
// set.
func (c Config) Validate() error {
	err := c.validate()
	if err == nil {
		return nil
	}
	if c.Weights == Pretrained {
		if _, missing := c.pretrained(); missing != nil {
			return err // A file that can be put there makes it right.
		}
	}
	return errs.Invalid(err)
}
