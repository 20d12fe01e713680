package notebooks

// Page is an entry of the table of contents.
type Page struct {
	File  string // Without .ipynb.
	Title string // As links name it.
	About string // One sentence: what a reader sees there.
	// Picture is the id of the cell whose picture stands for the page; empty is the first that shows one.
	Picture string
}

// Group is a group of pages.
type Group struct {
	Title, About string
	Pages        []Page
}

// Contents lists all notebooks but the contents page itself, in reading order. index.ipynb and the navigation of each
// page are made from it: go test ./notebooks -run Contents -regen.
var Contents = []Group{
	{"Start here", "Three pages that show what this is about.", []Page{
		{"start", "Start", "What a loss does to embeddings, as a picture; your own rule; a first training.", "matrices"},
		{"playground", "Playground", "Change a rule by slider; see weights, motion and gradient matrix at once.", ""},
		{"figure1", "Figure 1", "From loss to gradient: the framework on a real batch.", ""},
	}},
	{"Understand", "The parts of a gradient, and what they do.", []Page{
		{"equations", "Equations", "All 19, as printed: computed by the library and by hand, drawn, with the code.",
			"compute7"},
		{"table1", "Table 1", "Losses as rules: the composed gradient against autodiff of the loss itself.", ""},
		{"figure2", "Figure 2", "The directions, and how much of each turns the embedding.", ""},
		{"figure3", "Figure 3", "Triplet weights, and where the masks sc1 and sc2 let the positive pair act.", ""},
		{"losses", "Losses", "Twenty-eight published losses taken apart, in the paper's terms.", ""},
	}},
	{"Reproduce", "The paper's results in its order, each with what the paper says of it and whether it holds.", []Page{
		{"table2", "Table 2", "Four directions trained on two data sets, beside the paper's numbers.", ""},
		{"table3", "Table 3", "Six pair weights, each with two directions, trained on both sets.", ""},
		{"figure4", "Figure 4", "How near the nearest positive and the nearest negative are over a test set.", ""},
		{"table4", "Table 4", "Seven triplet weights, each with two pair weights, trained on both sets.", ""},
		{"table5", "Table 5", "The paper's best rule beside the state of the art, and over the batch size.", ""},
		{"figure5", "Figure 5", "The triplets of the Euclidean and of the cosine direction.", ""},
		{"table6", "Table 6", "Learning rates of directions, chosen on test classes and on held-out classes.", ""},
		{"table7", "Table 7", "Learning rates of pair weights.", ""},
		{"table8", "Table 8", "Learning rates of triplet weights.", ""},
		{"full", "Longer runs", "Tables 2 to 4 trained four times as long: does the paper's order come out?", ""},
		{"appendix", "Appendix", "Relative pair weights, the instability of sig-ms, the lengths of projections.", ""},
		{"ledger", "Ledger", "Each printed number, figure and sentence of the paper, with one verdict.", ""},
	}},
	{"Go beyond", "What the paper left open, and larger machines.", []Page{
		{"run", "Inside a run", "What a run finds and what it misses, and two runs side by side.", ""},
		{"grid", "The full grid", "All combinations of direction, pair weight and triplet weight.", ""},
		{"exchange", "Exchange", "A part of one loss put into another.", ""},
		{"search", "Search", "Rules, rates and schedules searched on held-out training classes.", ""},
		{"photographs", "Photographs", "Tables 2 to 4 on half of the paper's CAR, and on birds, by an ImageNet network.", ""},
		{"length", "Length", "How the order changes when rules are trained longer.", ""},
		{"cluster", "A cluster", "A table's runs trained by Slurm.", ""},
		{"devices", "Devices", "One batch over several devices, with the gradient of one.", "draw"},
	}},
}
