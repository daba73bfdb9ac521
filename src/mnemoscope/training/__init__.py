"""How it learns: loop, schedules, checkpoints, resume, devices and processes."""
