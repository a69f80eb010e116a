"""Schedules: the times they mean (``cron``), and which node fires them when (``firing``)."""
