"""What words mean, how errors are found, what differs from the paper, and what was found out about claims."""

WORDS = {
    "EiV, non-EiV": "Errors-in-Variables: the model that knows of the error σ_x of its inputs; and the same network "
    "that takes them as exact.",
    "x, ζ": "the input as it was measured, and the true one, which no model sees.",
    "truth": "g(ζ), the true function at the true input; known of the simulated sets only.",
    "label": "the measured output y: the truth and the output noise.",
    "epistemic": "what the training data leave open about the weights: how far f scatters over their posterior.",
    "aleatoric": "what σ_x leaves open about ζ: how far f scatters over the inputs that x may stand for; none without "
    "EiV.",
    "u": "the uncertainty of the truth: u² = epistemic² + aleatoric².",
    "output noise": "σ_y, the scatter of labels about the truth, as the model has fitted it.",
    "total": "the uncertainty of a label: total² = u² + σ_y².",
    "coverage": "the share of truths, or of labels, that lie in their intervals; it should be 0.95 where these are the "
    "prediction m ± 1.96 u, or ± 1.96 total.",
    "g-based Bayesian regression": "knows the form of g, but not of σ_x; its band is that of its parameters, or a "
    "predictive one that holds σ_y, too.",
    "as printed, unbiased": "two ways to find u from draws: Algorithm 2 of the paper, but for its misprint; and one "
    "whose u² is right on average with as many forward passes.",
}

DIFFERENCES = (
    "u in Algorithm 2 is printed with 1/(LK-1) outside the root; eq. (EiV_pred_unc) needs it inside, as it is here.",
    "Algorithm 2 crosses all thetas with the same five zetas, which loses a fifth of the variance due to the input "
    "error. Every number is given by the unbiased estimator, too: blocks of thetas with fresh zetas, and as many "
    "forward passes.",
    "sigma_y is set to the training RMSE of m(x), the average over 10 pairs (theta, zeta) per row with their Monte "
    "Carlo error taken out; the paper does not say how many it takes.",
    "Masks: one per row, shared by its zetas (footnote of the paper). Activation: leaky ReLU with torch's slope 0.01;"
    " the paper shows it in a sketch only.",
    "Real data are standardised by the statistics of each training split; columns that do not vary (two in naval) "
    "are mapped to zero. naval and energy have two targets; the benchmark's first one is taken.",
    "The g-based Bayesian regression is worded with sigma_y in its band, and said to cover the truth too seldom on all "
    "four simulated sets. The band of its coefficients does; the one with sigma_y covers too much on linear, a little "
    "too little on quadratic, and far too little on cubic and sine, where sigma_y is small against what the error of x "
    "moves g by. What the paper says of its figure fits the coefficients only. Every claim about this regression is "
    "put to the test for both bands, and the figure and the tables show both.",
    "Simulated data, splits and seeds are our own: the paper's are not public. Numbers agree up to their scatter.",
)

DRAWN_ANEW_DIFFERS = (
    "The paper splits each simulated data set ten times at random. Here each network has a data set of its own, with "
    "as many rows to train and to test, and the three methods have the same ones. The points of the figures are common "
    "to all networks, whose averages are now over data sets, too."
)

# How the errors of claims and tables are found; then what they are of, by how the data of simulated sets were drawn.
ERRORS = (
    "Standard errors: a statistic is found again with one network left out at a time, of all methods that it compares "
    "(jackknife; for a mean it is the usual standard error). Claims about the 200 fresh points say what theirs is. On "
    "the real sets the networks have overlapping random splits of one table, as in the paper: these errors are of "
    "splits and seeds, and leave out what another table would change."
)
ERRORS_DRAWN_ANEW = (
    "On the simulated sets the data are drawn anew for each network, rows to train and rows to test, and EiV, non-EiV "
    "and the g-based regression have the same draws: errors are those over independent data sets."
)
ERRORS_OF_SPLITS = (
    "The tables of this page come from a run in which the networks of a simulated set, too, had overlapping splits of "
    "one data set. Errors on these sets leave out what another data set would change, and their verdicts are more "
    "certain than they should be; `eiv reproduce` now draws the data anew for each network."
)

# By the name of the claim; shown only where its verdict is not "holds".
REMARKS = {
    "uncertainties_differ": (
        "On the real sets σ_x is 0.05 of each column's spread. What that moves f by (aleatoric 0.03 to 0.08 spreads"
        " of y on these sets) is less than the epistemic spread of a dropout rate of 0.2 (0.08 to 0.16), and the "
        "two add in squares."
    ),
    "rmse_alike": (
        "The five zetas of a prediction leave noise in its mean where f is steep; the unbiased estimator, with a "
        "hundred zetas, has less of it. On yacht, energy and california the RMSE scatters too much between the "
        "networks to decide."
    ),
    "labels_covered_as_they_should": (
        "σ_y is the training RMSE, which already holds the uncertainty of the input and of the weights that the "
        "total uncertainty adds once more: intervals are too wide where the fit is good (yacht, naval, energy, "
        "sine). On wine and concrete the networks overfit (RMSE 0.67 on training rows of wine, 0.80 on test rows), "
        "and intervals are too narrow."
    ),
    "labels_covered_alike": ("The same double counting, which the input error makes larger for the EiV model."),
    "labels_better_covered_by_u": (
        "On yacht, naval, wine and energy the epistemic part is the larger one, or both models cover almost all "
        "labels already; what the input error adds is within the scatter of ten networks."
    ),
    "truth_covered_as_it_should": (
        "Two reasons. Algorithm 2 crosses all thetas with the same five zetas, which makes u too small: the unbiased "
        "estimator covers 0.07 to 0.11 more. And the curve comes out too flat where g bends, which no u accounts for. "
        "How much that costs depends on the data that are drawn, most of all on quadratic."
    ),
    # The ratios are those of table sim_data: sigma_y over the root mean square of sigma_x g'(zeta).
    "truth_closer_than_regression_predictive": (
        "How often a band that holds σ_y covers the truth is a matter of σ_y against what the error of x moves g by. "
        "That ratio is 2 on linear, 0.9 on quadratic, 0.2 on cubic and 0.03 on sine: the band covers nearly every "
        "truth on linear and a little less than it should on quadratic, and falls far short on the other two. That the "
        "EiV model is closer on all four sets is so for the band of the coefficients."
    ),
    "regression_covers_too_little_predictive": (
        "Where σ_y is about as large as what the error of x moves g by (quadratic), or larger (linear), a band that "
        "holds it covers most of the truth, whatever the regression knows. The paper's argument needs only the band "
        "of the coefficients, which leaves most of the truth uncovered on every set."
    ),
    "less_output_noise": (
        "σ_y is almost the same in both models. The share of the noise is smaller because u is larger, which cannot"
        " be decided on the sets where the input error hardly matters."
    ),
}
