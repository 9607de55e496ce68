"""The keys of an elastic job in its store.

They are below the layer of elastic jobs, as launchers and agents read some of them.
"""

#: The prefix of the keys of single processes, and that of the keys that all members
#: watch.
NODES, COMMON = "node/", "now/"

#: The leader of the rounds, the outcome of the last one, a notice of lost members.
LEADER, ROUND, NOTICE = COMMON + "leader", COMMON + "round", COMMON + "notice"

#: The reasons by the names of excluded members.
EXCLUDED = COMMON + "excluded"

#: The reason why the job is closed, and that of a rank that has ended with exit code 0,
#: so that none is restarted.
CLOSED, ENDING = COMMON + "closed", COMMON + "ending"

#: The command of the job, which all of its nodes run.
COMMAND = "command"
