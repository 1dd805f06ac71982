// harness/suite/policy_keys.inl - the keys of a gate's policy: rows of the table in schema.c
TEXT_ROW(POLICY, "$schema", false, "Path of this schema, for editors."),
    NAME_ROW(POLICY, "name", true, "Name of the policy, as recorded with each verdict."),
    TEXT_ROW(POLICY, "description", false, "Description in one or two sentences."),
    WHOLE_ROW(POLICY, "rounds", 2, 24, "24",
              "Maximum number of rounds per case and side; cases are judged after 8, 16 and 24 "
              "rounds, up to this number."),
    REAL_ROW(POLICY, "false_alarm_rate", 1e-6, 0.1, "0.01",
             "Largest probability that a gate over the whole suite judges an identical build "
             "slower."),
    REAL_ROW(POLICY, "miss_rate", 1e-6, 0.5, "0.05",
             "Largest probability that a case slower by more than its tolerance passes, if the "
             "ratios of rounds are normally distributed. A slowdown in only a few rounds may "
             "pass: each SAME states in what fraction of the rounds."),
    OBJECT_ROW(POLICY, "tolerance", GROUP, TOLERANCE, "{}", false, false, "Of times."),
    REAL_ROW(
        POLICY, "inconclusive_limit", 0, 10, "0.25",
        "Where an INCONCLUSIVE time is allowed, it passes only if its 95 % interval ends below 1 "
        "+ this value: 0.25 excludes a slowdown of 25 % or more."),
    WHOLE_ROW(POLICY, "memory_tolerance_bytes", 0, WHOLE_MAX, "1048576",
              "Fraction by which the peak of the framework's own allocator may grow."),
    REAL_ROW(POLICY, "clock_tolerance", 0, 1, "0.01",
             "Fraction by which the median clocks of two sessions may differ and still be "
             "comparable; in interleaved rounds a larger difference is reported with the verdict."),
    CHOICE_ROW(POLICY, "loss", "none|bitwise|numeric|statistical", "\"numeric\"", false, false,
               "How closely the loss curves of both sides must agree: none (not judged), bitwise, "
               "numeric (within the spread of the baseline's rounds), statistical (at the end)."),
    CHOICES_ROW(POLICY, "allow", "inconclusive|new|missing|incomparable", NULL,
                "Results that do not fail the gate: an inconclusive verdict (inconclusive); a "
                "case that the baseline lacks (new); a case that only the baseline has (missing); "
                "a case that is not comparable (incomparable)."),
    OBJECT_ROW(POLICY, "calibration", GROUP, CALIBRATION, "{}", false, false,
               "Requirements on the calibration of this machine's noise."),
    OBJECT_ROW(POLICY, "overrides", GROUPS, OVERRIDE, NULL, false, false,
               "Rules for some cases; if several match a case, the last one that sets a key "
               "applies."),

    REAL_ROW(TOLERANCE, "kernel", 0, 10, "0.01", "Tolerance of kernel cases of 20 us and more."),
    REAL_ROW(TOLERANCE, "short_kernel", 0, 10, "0.02", "Tolerance of kernel cases below 20 us."),
    REAL_ROW(TOLERANCE, "train", 0, 10, "0.005", "Tolerance of a training step."),
    REAL_ROW(TOLERANCE, "p95", 0, 10, "0.05",
             "Tolerance of the 95th percentile of a call or step."),
    REAL_ROW(TOLERANCE, "recovery", 0, 10, "0.1",
             "Tolerance of the times of recovery from a lost rank and of its detection."),

    BOOL_ROW(CALIBRATION, "required", "false",
             "Refuse to judge a case that has not been calibrated in this environment."),
    REAL_ROW(
        CALIBRATION, "false_alarm_rate", 0, 1, "0.01",
        "Largest fraction of identical builds that may be judged slower: the calibration's upper "
        "bound must not exceed it."),
    REAL_ROW(CALIBRATION, "smallest_tolerances", 1, 1000, "2",
             "Largest value, in tolerances, of the smallest slowdown that is detected nine times "
             "in ten: the calibration's upper bound must not exceed it."),
    WHOLE_ROW(CALIBRATION, "days", 1, 3650, "30", "Days after which a calibration expires."),

    TEXT_ROW(OVERRIDE, "case", true, "Glob that the names of the cases match: gelu.forward.*"),
    CHOICE_ROW(OVERRIDE, "metric",
               "time_ns|time_p95_ns|step_time_ns|step_time_p95_ns|recovery_ns|recovery_detect_ns|"
               "peak_allocated_bytes|loss",
               NULL, false, false,
               "The metric that the rule applies to; default: all metrics of "
               "the case."),
    TEXT_ROW(OVERRIDE, "reason", true, "Reason for the rule, shown in reports."),
    REAL_ROW(OVERRIDE, "tolerance", 0, 10, NULL, "Replaces the policy's tolerance, for times."),
    REAL_ROW(OVERRIDE, "inconclusive_limit", 0, 10, NULL, "Replaces the policy's value."),
    WHOLE_ROW(OVERRIDE, "memory_tolerance_bytes", 0, WHOLE_MAX, NULL,
              "Replaces the policy's value."),
    CHOICE_ROW(OVERRIDE, "loss", "none|bitwise|numeric|statistical", NULL, false, false,
               "Replaces the policy's value."),
    CHOICES_ROW(OVERRIDE, "allow", "inconclusive|new|missing|incomparable", NULL,
                "Replaces the policy's value."),
    BOOL_ROW(OVERRIDE, "gated", NULL,
             "false: the case is measured and shown, but cannot fail the gate."),
