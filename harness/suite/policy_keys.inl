// harness/suite/policy_keys.inl - the keys of a gate's policy: rows of the table in schema.c
TEXT_ROW(POLICY, "$schema", false, "Where this schema is; for editors."),
    NAME_ROW(POLICY, "name", true, "Name of the policy, as recorded with each verdict."),
    TEXT_ROW(POLICY, "description", false, "One or two sentences for people."),
    WHOLE_ROW(POLICY, "rounds", 2, 24, "24",
              "Rounds per case and side at most; judged after 8, 16 and 24, as far as it goes."),
    REAL_ROW(POLICY, "false_alarm_rate", 1e-6, 0.1, "0.01",
             "Chance that a gate over the whole suite calls an identical build slower, at most."),
    REAL_ROW(POLICY, "miss_rate", 1e-6, 0.5, "0.05",
             "Chance that a case slower by more than its tolerance passes, at most, if the rounds' "
             "ratios are normal. A slowdown of a few rounds may pass: each SAME says of how many."),
    OBJECT_ROW(POLICY, "tolerance", GROUP, TOLERANCE, "{}", false, false, "Of times."),
    REAL_ROW(
        POLICY, "inconclusive_limit", 0, 10, "0.25",
        "Where an INCONCLUSIVE time is allowed, it passes only if its 95 % interval ends below "
        "1 + this: 0.25 lets no slowdown of 25 % or more hide."),
    WHOLE_ROW(POLICY, "memory_tolerance_bytes", 0, WHOLE_MAX, "1048576",
              "By how much the peak of our own allocator may grow."),
    REAL_ROW(POLICY, "clock_tolerance", 0, 1, "0.01",
             "Share by which the median clocks of two sessions may differ and still be comparable; "
             "in interleaved rounds a larger difference is reported beside the verdict."),
    CHOICE_ROW(POLICY, "loss", "none|bitwise|numeric|statistical", "\"numeric\"", false, false,
               "How alike the loss curves of both sides must be: none (not judged), bitwise, "
               "numeric (within the spread of the baseline's rounds), statistical (at the end)."),
    CHOICES_ROW(POLICY, "allow", "inconclusive|new|missing|incomparable", NULL,
                "What does not fail the gate: a verdict left open; a case that the baseline does "
                "not have; one that only the baseline has; one that is not comparable."),
    OBJECT_ROW(POLICY, "calibration", GROUP, CALIBRATION, "{}", false, false,
               "What must be known of this machine's noise."),
    OBJECT_ROW(POLICY, "overrides", GROUPS, OVERRIDE, NULL, false, false,
               "Rules for some cases; of several that fit, the last that says a key wins."),

    REAL_ROW(TOLERANCE, "kernel", 0, 10, "0.01", "Of kernel cases of 20 us and more."),
    REAL_ROW(TOLERANCE, "short_kernel", 0, 10, "0.02", "Of kernel cases below 20 us."),
    REAL_ROW(TOLERANCE, "train", 0, 10, "0.005", "Of a training step."),
    REAL_ROW(TOLERANCE, "p95", 0, 10, "0.05", "Of the 95th percentile of a call or step."),
    REAL_ROW(TOLERANCE, "recovery", 0, 10, "0.1",
             "Of the recovery of lost ranks and of its detection."),

    BOOL_ROW(CALIBRATION, "required", "false",
             "Refuse to judge a case that has not been calibrated in this environment."),
    REAL_ROW(
        CALIBRATION, "false_alarm_rate", 0, 1, "0.01",
        "Largest share of identical builds that may be called slower: the upper bound that the "
        "calibration found must not exceed it."),
    REAL_ROW(CALIBRATION, "smallest_tolerances", 1, 1000, "2",
             "Largest slowdown, in tolerances, that is found nine times in ten: the calibration's "
             "upper bound must not exceed it."),
    WHOLE_ROW(CALIBRATION, "days", 1, 3650, "30", "Days after which a calibration expires."),

    TEXT_ROW(OVERRIDE, "case", true, "Names of cases, as a glob: gelu.forward.*"),
    CHOICE_ROW(OVERRIDE, "metric",
               "time_ns|time_p95_ns|step_time_ns|step_time_p95_ns|recovery_ns|recovery_detect_ns|"
               "peak_allocated_bytes|loss",
               NULL, false, false, "Only this metric; default: all of the case's."),
    TEXT_ROW(OVERRIDE, "reason", true, "Why, for whoever reads a report."),
    REAL_ROW(OVERRIDE, "tolerance", 0, 10, NULL, "In place of the policy's, for times."),
    REAL_ROW(OVERRIDE, "inconclusive_limit", 0, 10, NULL, "In place of the policy's."),
    WHOLE_ROW(OVERRIDE, "memory_tolerance_bytes", 0, WHOLE_MAX, NULL, "In place of the policy's."),
    CHOICE_ROW(OVERRIDE, "loss", "none|bitwise|numeric|statistical", NULL, false, false,
               "In place of the policy's."),
    CHOICES_ROW(OVERRIDE, "allow", "inconclusive|new|missing|incomparable", NULL,
                "In place of the policy's."),
    BOOL_ROW(OVERRIDE, "gated", NULL,
             "false: measured and shown, but nothing of it fails the gate."),
