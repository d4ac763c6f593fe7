"""Texts for the page of a run: a glossary, standard errors, differences from the paper, and remarks on claims."""

WORDS = {
    "EiV, non-EiV": "the Errors-in-Variables model, which takes the error σ_x of its inputs into account; and the same "
    "network with inputs taken as exact.",
    "x, ζ": "the measured input, and the true input, which no model sees.",
    "truth": "g(ζ), the true function at the true input; known for the simulated sets only.",
    "label": "the measured output y: the truth plus the output noise.",
    "epistemic": "what the training data leave open about the weights: the standard deviation of f over their "
    "posterior.",
    "aleatoric": "what σ_x leaves open about ζ: the standard deviation of f over the true inputs that x may stand for; "
    "zero without EiV.",
    "u": "the uncertainty of the truth: u² = epistemic² + aleatoric².",
    "output noise": "the fitted σ_y, the scatter of labels about the truth.",
    "total": "the uncertainty of a label: total² = u² + σ_y².",
    "coverage": "the share of true values, or of labels, inside their intervals. It should be 0.95 for the intervals "
    "m ± 1.96 u and m ± 1.96 total about the prediction m.",
    "g-based Bayesian regression": "a regression that knows the form of g, but ignores σ_x. Its band is that of its "
    "parameters, or a predictive band that includes σ_y.",
    "as printed, unbiased": "two ways to find u from draws: Algorithm 2 of the paper without its misprint; and one "
    "whose u² is right on average, with the same number of forward passes.",
}

DIFFERENCES = (
    "u in Algorithm 2 is printed with 1/(LK-1) outside the root; eq. (EiV_pred_unc) needs it inside, as it is here.",
    "Algorithm 2 crosses all thetas with the same five zetas, which loses a fifth of the variance due to the input "
    "error. Every number is also given for the unbiased estimator: blocks of thetas with fresh zetas, and the same "
    "number of forward passes.",
    "sigma_y is set to the training RMSE of m(x). Here m(x) is the average over 10 pairs (theta, zeta) per row, and "
    "the Monte Carlo error of these is removed. The paper does not say how many pairs it uses.",
    "Masks: one per row, shared by its zetas (footnote of the paper). Activation: leaky ReLU with torch's slope 0.01;"
    " the paper shows it in a sketch only.",
    "Real data are standardised by the statistics of each training split; columns that do not vary (two in naval) "
    "are mapped to zero. naval and energy have two targets; the first one, that of the benchmark, is used.",
    "The paper describes the g-based Bayesian regression with sigma_y in its band, and says that it covers the truth "
    "too seldom on all four simulated sets. The band of its coefficients does. The one with sigma_y covers too much on "
    "linear, a little too little on quadratic, and far too little on cubic and sine, where sigma_y is small compared "
    "with the effect of the error of x on g. What the paper says on its figure fits the band of the coefficients only. "
    "Every claim about this regression is tested for both bands, and the figure and the tables show both.",
    "Simulated data, splits and seeds are our own, since those of the paper are not public. Numbers agree up to their "
    "scatter.",
)

DRAWN_ANEW_DIFFERS = (
    "The paper splits each simulated data set ten times at random. Here each network has a data set of its own, with "
    "the same numbers of rows to train and to test; the three methods share these data sets. The points of the figures "
    "are common to all networks, so their averages are also over data sets."
)

# How the standard errors of claims and tables are found, and then their meaning on simulated sets, by how the data
# were drawn.
ERRORS = (
    "Standard errors come from the jackknife: a statistic is computed again without one network at a time, in all "
    "methods that it compares. For a mean this is the usual standard error. Claims about the 200 fresh points state "
    "their own standard error. On the real sets the networks have overlapping random splits of one table, as in the "
    "paper. There the errors are those over splits and seeds, and do not include the scatter between tables."
)
ERRORS_DRAWN_ANEW = (
    "On the simulated sets the rows to train and to test are drawn anew for each network, and EiV, non-EiV and the "
    "g-based regression share them. There the errors are those over independent data sets."
)
ERRORS_OF_SPLITS = (
    "The tables of this page come from a run in which the networks of a simulated set also had overlapping splits of "
    "one data set. Errors on these sets do not include the scatter between data sets, and their verdicts are more "
    "certain than they should be; `eiv reproduce` now draws the data anew for each network."
)

# Remarks by the name of the claim, shown only where its verdict is not "holds".
REMARKS = {
    "uncertainties_differ": (
        "On the real sets σ_x is 0.05 of the spread (standard deviation) of each column. Its effect on f (aleatoric, "
        "0.03 to 0.08 spreads of y on these sets) is smaller than the epistemic uncertainty at a dropout rate of 0.2 "
        "(0.08 to 0.16), and their squares add up."
    ),
    "rmse_alike": (
        "With five zetas the mean of a prediction is noisy where f is steep; the unbiased estimator, with a hundred "
        "zetas, is less noisy. On yacht, energy and california the RMSE scatters too much between the networks to "
        "decide."
    ),
    "labels_covered_as_they_should": (
        "σ_y is the training RMSE, which includes the uncertainty of the input and of the weights. The total "
        "uncertainty counts these twice, so intervals are too wide where the fit is good (yacht, naval, energy, sine). "
        "On wine and concrete the networks overfit (RMSE 0.67 on training rows of wine, 0.80 on test rows), and "
        "intervals are too narrow."
    ),
    "labels_covered_alike": (
        "σ_y := RMSE counts the uncertainty of the input and of the weights twice. The input error makes this effect "
        "larger for the EiV model."
    ),
    "labels_better_covered_by_u": (
        "On yacht, naval, wine and energy the epistemic component is the larger one, or both models already cover "
        "almost all labels; the effect of the input error is within the scatter of ten networks."
    ),
    "truth_covered_as_it_should": (
        "There are two reasons. Algorithm 2 crosses all thetas with the same five zetas, which makes u too small: the "
        "unbiased estimator covers 0.07 to 0.11 more. And the curve comes out too flat where g bends, which u does not "
        "account for. The size of this effect depends on the data that are drawn, most of all on quadratic."
    ),
    # The ratios are those of table sim_data: sigma_y over the root mean square of sigma_x g'(zeta).
    "truth_closer_than_regression_predictive": (
        "The coverage of a band that includes σ_y depends on the ratio of σ_y to the effect of the error of x on g. "
        "This ratio is 2 on linear, 0.9 on quadratic, 0.2 on cubic and 0.03 on sine. So the band covers nearly all of "
        "the truth on linear, a little less than it should on quadratic, and far too little on the other two. For the "
        "band of the coefficients the EiV model is closer on all four sets."
    ),
    "regression_covers_too_little_predictive": (
        "Where σ_y is about as large as the effect of the error of x on g (quadratic), or larger (linear), a band that "
        "includes it covers most of the truth, whatever the regression knows. The argument of the paper needs only the "
        "band of the coefficients, which leaves most of the truth uncovered on every set."
    ),
    "less_output_noise": (
        "σ_y is almost the same in both models. The share of the noise is smaller because u is larger. This cannot be "
        "decided on the sets where the input error hardly matters."
    ),
}
