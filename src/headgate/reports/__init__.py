"""Reports: what happened in a batch, and the smoothed view that policies read."""

from headgate.reports.batch_report import BatchReport, BinReport, ChannelReport, HotKey
from headgate.reports.load_view import LoadView, fold

__all__ = ["BatchReport", "BinReport", "ChannelReport", "HotKey", "LoadView", "fold"]
