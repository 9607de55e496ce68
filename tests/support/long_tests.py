"""The tests that are still too long for :mod:`tests.test_house`.

A test fails if one of them no longer is, so that the lists only shrink.
"""

LONG_FILES: set[str] = {
    "tests/support/script_under_torch.py",
}

LONG_FUNCTIONS: dict[str, set[str]] = {
    "tests/bootstrap/test_init_urls.py": {
        "test_ranks_of_horovodrun_connect_across_hosts"
    },
    "tests/comm/devices/test_device_refusals.py": {
        "rank",
        "test_what_cannot_be_is_refused_and_loses_nothing",
    },
    "tests/comm/test_arguments.py": {"of_integers"},
    "tests/comm/test_background.py": {
        "on_each_rank",
        "test_several_threads_may_give_calls_to_communicators_of_their_own",
    },
    "tests/comm/test_background_errors.py": {"interrupted_in_many_ways"},
    "tests/comm/test_bucket.py": {"on_each_rank", "test_what_is_collected_is_reduced"},
    "tests/comm/test_call_refusals.py": {
        "on_each_rank",
        "test_what_each_call_refuses_before_it_sends",
    },
    "tests/comm/test_calls.py": {
        "on_each_rank",
        "test_arrays_that_are_not_contiguous_are_packed_and_unpacked",
        "test_the_functions_are_the_methods",
    },
    "tests/comm/test_calls_alike.py": {"one_job"},
    "tests/comm/test_earlier_calls.py": {
        "test_messages_that_were_sent_are_received_though_the_next_one_was_given_up"
    },
    "tests/comm/test_failures.py": {
        "test_a_rank_that_never_calls_is_named_with_its_last_call"
    },
    "tests/comm/test_group_calls.py": {
        "test_other_ranks_in_a_list_are_told_to_all_with_both_lists"
    },
    "tests/comm/test_groups.py": {"nested", "one_call", "random_calls"},
    "tests/comm/test_held_calls.py": {
        "test_calls_that_are_held_do_not_wake_the_thread"
    },
    "tests/comm/test_message_sequences.py": {
        "in_any_order",
        "on_each_rank",
        "test_a_message_that_found_no_room_and_was_given_up_does_not_stop_other_threads",
        "test_a_probe_tells_of_the_message_that_the_next_receive_takes",
    },
    "tests/comm/test_negotiated_bucket.py": {
        "on_each_rank",
        "test_each_array_is_reduced_once_after_all_ranks_have_added_it",
        "test_what_a_bucket_refuses",
    },
    "tests/comm/test_order_of_calls.py": {
        "test_arrays_cannot_be_resized_during_a_call",
        "test_the_root_keeps_its_part_of_a_scatter_in_turn",
    },
    "tests/elastic/test_on_hosts.py": {
        "test_a_member_dies_and_another_takes_its_place"
    },
    "tests/elastic/test_rendezvous.py": {
        "test_survivors_go_on_without_a_member_that_dies_and_take_it_back"
    },
    "tests/elastic/test_running.py": {
        "member",
        "test_a_job_that_is_closed_goes_on_to_its_end_but_not_without_a_member",
        "test_communicators_shrink_and_grow",
        "test_members_die_and_come_and_the_weights_are_the_same",
        "test_survivors_train_the_same_weights",
    },
    "tests/elastic/test_shards.py": {
        "test_the_bits_of_a_sum_do_not_depend_on_the_members"
    },
    "tests/elastic/test_stateful.py": {"job"},
    "tests/engine/devices/test_cuda.py": {
        "test_as_many_arrays_are_taken_as_the_kernels_can"
    },
    "tests/engine/devices/test_cuda_runtime.py": {
        "test_kernels_are_launched_on_the_stream",
        "test_nccl_is_asked_in_groups",
        "test_what_goes_on_a_stream",
    },
    "tests/engine/devices/test_device_groups.py": {"run"},
    "tests/engine/devices/test_device_programs.py": {"world"},
    "tests/engine/devices/test_interpreter.py": {
        "run",
        "test_every_algorithm_is_right_in_one_kernel",
    },
    "tests/engine/plan/test_chunk_pipelining.py": {
        "test_the_kernel_copies_what_its_figures_say"
    },
    "tests/engine/plan/test_lowering.py": {"messages"},
    "tests/engine/plan/test_templates.py": {
        "test_a_template_gives_the_plans_of_all_lengths"
    },
    "tests/engine/test_heap.py": {"every_algorithm"},
    "tests/integrations/test_torch.py": {
        "test_a_launcher_that_sets_no_variables_of_torch_is_enough"
    },
    "tests/launch/test_faults.py": {"job"},
    "tests/launch/test_output.py": {"test_lines_of_ranks_never_mix"},
    "tests/launch/test_output_of_jobs.py": {"test_a_stop_loses_no_output"},
    "tests/launch/test_restarting.py": {"test_a_node_goes_on_when_another_is_lost"},
    "tests/launch/test_run.py": {
        "test_ctrl_c_is_a_keyboard_interrupt_in_the_middle_of_a_collective",
        "test_no_rank_survives_the_launcher",
    },
    "tests/selection/test_computing.py": {
        "test_a_schedule_may_ask_for_a_choice_while_another_thread_computes"
    },
    "tests/selection/test_on_topology.py": {
        "test_a_slow_host_is_the_end_of_a_pipeline"
    },
    "tests/selection/test_overrides.py": {"test_it_is_said_who_decided"},
    "tests/support/any_arguments.py": {"array"},
    "tests/support/fake_cupy.py": {"__init__"},
    "tests/support/msccl_orders.py": {"outcome"},
    "tests/support/msccl_programs.py": {"all_pairs"},
    "tests/support/mutation.py": {"mutated"},
    "tests/support/random_topologies.py": {"machines"},
    "tests/support/rendezvous_model.py": {"act", "faults_of"},
    "tests/support/script_differing.py": {"close_differing", "groups_differ"},
    "tests/support/script_on_transport.py": {"main"},
    "tests/support/script_torch_overloads.py": {
        "beside_calls",
        "every_overload",
        "packed_in_order",
        "refused",
    },
    "tests/support/script_under_torch.py": {
        "elastic_state",
        "every_collective",
        "every_op",
        "lazy_views",
        "objects_and_messages",
        "sparse_tensors",
        "traces",
        "what_cannot_be",
    },
    "tests/support/soak.py": {"soak"},
    "tests/support/torch_calls.py": {"every_call"},
    "tests/support/torch_overloads.py": {"contents"},
    "tests/support/transports.py": {"_on_hosts"},
    "tests/synthesis/test_packing.py": {"test_a_tree_is_the_cheapest_arborescence"},
    "tests/topology/test_assumed.py": {"test_every_figure_that_rests_on_one_says_so"},
    "tests/topology/test_odd_files.py": {"test_ports_of_one_card_share_its_slot"},
}
