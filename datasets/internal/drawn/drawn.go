// Package drawn draws the images of the data sets that need no files.
package drawn

// Set is a drawn set. Splits returns its training and test images, or its training images, queries and gallery, as many
// classes of each as asked for; 0 is all.
type Set struct {
	Name                      string
	TrainClasses, TestClasses int
	Splits                    func(trainClasses, testClasses int) [][]Part
}

// Sets are all of them, in the order of datasets.Names.
var Sets = []Set{
	{"minicar", carTrainClasses, carTestClasses, minicar},
	{"minishop", shopTrainClasses, shopTestClasses, minishop},
}
